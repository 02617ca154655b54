// linear_q4 in plain C++.
#include "byte_lanes.h"
#include "linear_q4.inl.h"

namespace stet::cpu {

const ByteSet scalarQ4 = q4Set<ScalarByteLanes, ScalarByteShape>;

}  // namespace stet::cpu
