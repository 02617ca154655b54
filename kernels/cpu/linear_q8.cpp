// linear_q8 in plain C++.
#include "lanes_scalar.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const Q8Set scalarQ8 = q8Set<ScalarLanes, 1>;

}  // namespace stet::cpu
