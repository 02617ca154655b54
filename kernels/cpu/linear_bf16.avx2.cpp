// linear_bf16 by AVX2 and FMA.
#include "lanes_avx2.h"
#include "linear_batch_shaped.inl.h"

namespace stet::cpu {

namespace {
struct Shape {
  static constexpr int rows = 6;
  static constexpr int tiles[rows] = {4, 2, 2, 1, 1, 1};
};
}  // namespace

const LinearKernel avx2Bf16 = floatKernel<Avx2Lanes, Schedule::canonical, Shape>;
const LinearKernel avx2Bf16Fast = floatKernel<Avx2Lanes, Schedule::fast, Shape>;
const BatchShapedLinear avx2BatchShaped = batchShapedKernel<Avx2Lanes, Shape>;

}  // namespace stet::cpu
