// linear_q8 in plain C++.
#include "byte_lanes.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const ByteSet scalarQ8 = q8Set<ScalarByteLanes, ScalarByteShape>;

}  // namespace stet::cpu
