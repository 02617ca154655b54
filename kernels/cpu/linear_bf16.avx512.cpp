// linear_bf16 by AVX-512.
#include "lanes_avx512.h"
#include "linear_batch_shaped.inl.h"

namespace stet::cpu {

namespace {
struct Shape {
  static constexpr int rows = 8;
  static constexpr int tiles[rows] = {8, 8, 6, 6, 4, 4, 3, 3};
};
}  // namespace

const LinearKernel avx512Bf16 = floatKernel<Avx512Lanes, Schedule::canonical, Shape>;
const LinearKernel avx512Bf16Fast = floatKernel<Avx512Lanes, Schedule::fast, Shape>;
const BatchShapedLinear avx512BatchShaped = batchShapedKernel<Avx512Lanes, Shape>;

}  // namespace stet::cpu
