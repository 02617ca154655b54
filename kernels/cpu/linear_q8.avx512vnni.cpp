// linear_q8 by AVX-512 with VNNI.
#include "lanes_avx512vnni.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const Q8Set vnniQ8 = q8Set<VnniLanes, 4>;

}  // namespace stet::cpu
