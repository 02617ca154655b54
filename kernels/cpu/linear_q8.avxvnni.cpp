// linear_q8 by AVX-VNNI.
#include "byte_lanes_avxvnni.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const ByteSet avxVnniQ8 = q8Set<AvxVnniByteLanes, Avx2ByteShape>;

}  // namespace stet::cpu
