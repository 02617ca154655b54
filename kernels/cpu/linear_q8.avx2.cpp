// linear_q8 by AVX2.
#include "lanes_avx2.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const Q8Set avx2Q8 = q8Set<Avx2Lanes, 2>;

}  // namespace stet::cpu
