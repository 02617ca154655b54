// linear_bf16, fast: prepared inputs (rowCount, columns) x bf16 weights (rows, columns) -> output (rowCount, rows).
// Inputs are rounded to bf16, nearest even. Accumulates pairs of products in f32; the order is that of the inputs in one
// sum per output, or four interleaved sums where one or two rows stream the weights from memory.
#pragma once
#include "lanes_avx512.h"
#include "linear_bf16.inl.h"

namespace stet::cpu {
namespace {

inline size_t dotInputBytes(int32_t columns) { return static_cast<size_t>(bf16Pairs(columns)) * sizeof(uint32_t); }

inline void prepareDotInput(const float* input, int32_t columns, std::byte* prepared) {
  const int padded = bf16Pairs(columns) * 2;
  for (int k = 0; k < padded; k += 16) {
    const int rest = columns - k;
    const __m512 x = Avx512Lanes::loadFirst(input + (rest > 0 ? k : 0), rest >= 16 ? 16 : rest > 0 ? rest : 0);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(prepared + static_cast<size_t>(k) * 2), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
}

struct DotLinear {
  const uint32_t* weights;
  size_t tileWords;
  const std::byte* input;
  size_t inputBytes;
  int pairs;
};

inline __m512 dot(__m512 sum, __m512i weights, int32_t input) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(_mm512_set1_epi32(input)));
}

// `rows` rows by `tiles` tiles, `sums` interleaved sums an output. Weights come in order, so fetching them ahead by hand
// measured nothing from memory and cost up to a fifth from cache.
template <int rows, int tiles, int sums> void dotBlock(const DotLinear& linear, const LinearOutput& to, int row, int tile) {
  __m512 total[sums][rows][tiles];
  for (int s = 0; s < sums; s++) {
    for (int r = 0; r < rows; r++) {
      for (int t = 0; t < tiles; t++) total[s][r][t] = _mm512_setzero_ps();
    }
  }
  const uint32_t* weights = linear.weights + static_cast<size_t>(tile) * linear.tileWords;
  const std::byte* input = linear.input + static_cast<size_t>(row) * linear.inputBytes;
  for (int p = 0; p < linear.pairs; p += sums) {
#pragma GCC unroll 8
    for (int s = 0; s < sums; s++) {
      __m512i w[tiles];
      const uint32_t* line = weights + static_cast<size_t>(p + s) * tileOutputs;
#pragma GCC unroll 16
      for (int t = 0; t < tiles; t++) w[t] = _mm512_load_si512(line + static_cast<size_t>(t) * linear.tileWords);
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        const int32_t x = ScalarLanes::loadI(input + static_cast<size_t>(r) * linear.inputBytes + static_cast<size_t>(p + s) * 4);
#pragma GCC unroll 16
        for (int t = 0; t < tiles; t++) total[s][r][t] = dot(total[s][r][t], w[t], x);
      }
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int t = 0; t < tiles; t++) {
      for (int s = 1; s < sums; s++) total[0][r][t] = _mm512_add_ps(total[0][r][t], total[s][r][t]);
      storeOutputs<Avx512Lanes>(to, row + r, (tile + t) * tileOutputs, total[0][r][t]);
    }
  }
}

template <int rows, int tiles, int sums> void dotTiles(const DotLinear& linear, const LinearOutput& to, int row, int tile, int tileEnd) {
  for (; tile + tiles <= tileEnd; tile += tiles) dotBlock<rows, tiles, sums>(linear, to, row, tile);
  if constexpr (tiles > 1) dotTiles<rows, tiles / 2, sums>(linear, to, row, tile, tileEnd);
}

inline void dotLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin,
                      int32_t tileEnd, float* output, int64_t outputStride) {
  const DotLinear linear{reinterpret_cast<const uint32_t*>(matrix.data), bf16TileWords(matrix.columns), prepared,
                         dotInputBytes(matrix.columns), bf16Pairs(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  const int strip = rowCount <= 8 ? tileEnd - tileBegin : stripTiles(linear.tileWords * sizeof(uint32_t), 12);
  for (int tile = tileBegin; tile < tileEnd; tile += strip) {
    const int end = tile + strip < tileEnd ? tile + strip : tileEnd;
    int row = 0;
    for (; row + 8 <= rowCount; row += 8) dotTiles<8, 3, 1>(linear, to, row, tile, end);
    for (; row + 4 <= rowCount; row += 4) dotTiles<4, 4, 1>(linear, to, row, tile, end);
    for (; row + 2 <= rowCount; row += 2) dotTiles<2, 4, 2>(linear, to, row, tile, end);
    for (; row < rowCount; row++) dotTiles<1, 4, 4>(linear, to, row, tile, end);
  }
}

}  // namespace
}  // namespace stet::cpu
