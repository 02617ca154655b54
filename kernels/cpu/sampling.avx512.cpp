// What sampling does with vectors, by AVX-512.
#include "sampling.inl.h"
#include "sampling_lanes_avx512.h"

namespace stet::cpu {

const SamplingSet avx512Sampling = makeSamplingSet<Avx512SamplingLanes>();

}  // namespace stet::cpu
