// linear_bf16 in plain C++.
#include "lanes_scalar.h"
#include "linear_batch_shaped.inl.h"

namespace stet::cpu {

namespace {
// One row by one tile: the compiler keeps its sixteen sums in vectors, which it does not do for more.
struct Shape {
  static constexpr int rows = 1;
  static constexpr int tiles[rows] = {1};
};
}  // namespace

const LinearKernel scalarBf16 = floatKernel<ScalarLanes, Schedule::canonical, Shape>;
const BatchShapedLinear scalarBatchShaped = batchShapedKernel<ScalarLanes, Shape>;

}  // namespace stet::cpu
