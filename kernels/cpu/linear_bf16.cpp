// linear_bf16 in plain C++.
#include "lanes_scalar.h"
#include "linear_bf16.inl.h"

namespace stet::cpu {

namespace {
struct Shape {
  static constexpr int rows = 4;
  static constexpr int tiles[rows] = {1, 1, 1, 1};
};
}  // namespace

const LinearKernel scalarBf16 = floatKernel<ScalarLanes, Shape>;

}  // namespace stet::cpu
