// What sampling does with vectors, by AVX2.
#include "sampling.inl.h"
#include "sampling_lanes_avx2.h"

namespace stet::cpu {

const SamplingSet avx2Sampling = makeSamplingSet<Avx2SamplingLanes>();

}  // namespace stet::cpu
