// linear of the batch-shaped study mode: prepared inputs (rowCount, columns) x bf16 weights (rows, columns) -> output
// (rowCount, rows), rounded to bf16. Inputs are rounded to bf16, so every product is exact and a fused multiply-add rounds as a
// product and a sum do: the bits are the same on every instruction set. Accumulates in f32.
// Order: inputs ascending within a part, parts ascending, then the bias. The rows of the whole batch say how long a part is
// (batch_shape.h), not those of the call. Byte formats come as the bf16 nearest to each weight (batch_shaped_pack.cpp).
#pragma once
#include "batch_shape.h"
#include "linear_bf16.inl.h"
#include "round_bf16.inl.h"

namespace stet::cpu {
namespace {

static_assert(linearPartUnit % 2 == 0);

// Below 2^-50 zero, as r16 has it, so that no product is subnormal.
template <class S> void prepareBf16Input(const float* input, int32_t columns, std::byte* prepared) {
  float* output = reinterpret_cast<float*>(prepared);
  const int padded = bf16Pairs(columns) * 2;
  for (int k = 0; k < padded; k += S::width) {
    const int rest = columns - k;
    const auto x = rest >= S::width ? S::load(input + k) : rest > 0 ? S::loadFirst(input + k, rest) : S::zero();
    S::store(output + k, S::select(S::lessI(magnitude<S>(x), S::splatI(0x26800000)), S::zero(), toBf16<S>(x)));
  }
}

template <class S, class Shape>
void batchShapedLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, int32_t batchRows, const float* bias,
                       int32_t tileBegin, int32_t tileEnd, float* output, int64_t outputStride) {
  const int segmentPairs = linearPartInputs(matrix.columns, batchRows) / 2;
  runFloatLinear<S, Schedule::canonical, Shape>(floatLinearOf(matrix, prepared, segmentPairs), {output, outputStride, bias, matrix.rows},
                                                rowCount, tileBegin, tileEnd);
  const int first = tileBegin * tileOutputs;
  const int end = tileEnd * tileOutputs < matrix.rows ? tileEnd * tileOutputs : matrix.rows;
  for (int r = 0; r < rowCount; r++) roundBf16<S>(output + r * outputStride + first, end - first);
}

template <class S, class Shape>
constexpr BatchShapedLinear batchShapedKernel{floatInputBytes, prepareBf16Input<S>, batchShapedLinear<S, Shape>};

}  // namespace
}  // namespace stet::cpu
