// linear_bf16 by AVX2 and FMA.
#include "lanes_avx2.h"
#include "linear_bf16.inl.h"

namespace stet::cpu {

namespace {
struct Shape {
  static constexpr int rows = 6, tiles = 1, tiles4 = 1, tiles2 = 2, tiles1 = 4;
};
}  // namespace

const LinearKernel avx2Bf16Canonical = floatKernel<Avx2Lanes, Shape, Schedule::canonical>;
const LinearKernel avx2Bf16Fast = floatKernel<Avx2Lanes, Shape, Schedule::fast>;

}  // namespace stet::cpu
