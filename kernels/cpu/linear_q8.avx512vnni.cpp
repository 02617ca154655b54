// linear_q8 by AVX-512 with VNNI.
#include "byte_input_avx512.inl.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const ByteSet vnniQ8 = q8Set<VnniByteLanes, VnniByteShape>;

}  // namespace stet::cpu
