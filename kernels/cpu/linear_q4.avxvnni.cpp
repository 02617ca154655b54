// linear_q4 by AVX-VNNI.
#include "byte_lanes_avxvnni.h"
#include "linear_q4.inl.h"

namespace stet::cpu {

const ByteSet avxVnniQ4 = q4Set<AvxVnniByteLanes, Avx2ByteShape>;

}  // namespace stet::cpu
