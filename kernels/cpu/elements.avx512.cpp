// rms_norm, rope, swiglu, add and argmax by AVX-512.
#include "add.inl.h"
#include "argmax.inl.h"
#include "lanes_avx512.h"
#include "rms_norm.inl.h"
#include "rope.inl.h"
#include "round_bf16.inl.h"
#include "sets.h"
#include "swiglu.inl.h"

namespace stet::cpu {

const ElementSet avx512Elements{rmsNorm<Avx512Lanes>,
                               rope<Avx512Lanes>,
                               swiglu<Avx512Lanes, Schedule::fast>,
                               swiglu<Avx512Lanes, Schedule::canonical>,
                               add<Avx512Lanes>,
                               argmax<Avx512Lanes>,
                               roundBf16<Avx512Lanes>};

}  // namespace stet::cpu
