// linear_bf16 by AVX-512.
#include "lanes_avx512.h"
#include "linear_bf16.inl.h"

namespace stet::cpu {

namespace {
struct Shape {
  static constexpr int rows = 8, tiles = 3, tiles4 = 4, tiles2 = 8, tiles1 = 8;
};
}  // namespace

const LinearKernel avx512Bf16Canonical = floatKernel<Avx512Lanes, Shape, Schedule::canonical>;
const LinearKernel avx512Bf16Fast = floatKernel<Avx512Lanes, Shape, Schedule::fast>;

}  // namespace stet::cpu
