// linear_bf16 in plain C++.
#include "lanes_scalar.h"
#include "linear_bf16.inl.h"

namespace stet::cpu {

namespace {
struct Shape {
  static constexpr int rows = 4, tiles = 1, tiles4 = 1, tiles2 = 1, tiles1 = 1;
};
}  // namespace

const LinearKernel scalarBf16Canonical = floatKernel<ScalarLanes, Shape, Schedule::canonical>;
const LinearKernel scalarBf16Fast = floatKernel<ScalarLanes, Shape, Schedule::fast>;

}  // namespace stet::cpu
