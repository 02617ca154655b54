// linear_q8 by AVX2.
#include "byte_lanes_avx2.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const ByteSet avx2Q8 = q8Set<Avx2ByteLanes, Avx2ByteShape>;

}  // namespace stet::cpu
