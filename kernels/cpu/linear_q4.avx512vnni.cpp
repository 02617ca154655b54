// linear_q4 by AVX-512 with VNNI.
#include "byte_input_avx512.inl.h"
#include "linear_q4.inl.h"

namespace stet::cpu {

const ByteSet vnniQ4 = q4Set<VnniByteLanes, VnniByteShape>;

}  // namespace stet::cpu
