// rms_norm, rope, swiglu, add and argmax by AVX2.
#include "add.inl.h"
#include "argmax.inl.h"
#include "lanes_avx2.h"
#include "rms_norm.inl.h"
#include "rope.inl.h"
#include "round_bf16.inl.h"
#include "sets.h"
#include "swiglu.inl.h"

namespace stet::cpu {

const ElementSet avx2Elements{rmsNorm<Avx2Lanes>,
                               rope<Avx2Lanes>,
                               swiglu<Avx2Lanes, Schedule::fast>,
                               swiglu<Avx2Lanes, Schedule::canonical>,
                               add<Avx2Lanes>,
                               argmax<Avx2Lanes>,
                               roundBf16<Avx2Lanes>};

}  // namespace stet::cpu
