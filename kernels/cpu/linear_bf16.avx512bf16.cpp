// linear_bf16 by the bf16 dot instruction; fast alone.
#include "linear_bf16_dot.inl.h"

namespace stet::cpu {

const LinearKernel dotBf16{dotInputBytes, prepareDotInput, dotLinear};

}  // namespace stet::cpu
