// linear_q4 by AVX2.
#include "byte_lanes_avx2.h"
#include "linear_q4.inl.h"

namespace stet::cpu {

const ByteSet avx2Q4 = q4Set<Avx2ByteLanes, Avx2ByteShape>;

}  // namespace stet::cpu
