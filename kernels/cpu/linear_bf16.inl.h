// linear_bf16 by f32 multiply-add: prepared inputs (rowCount, columns) x bf16 weights (rows, columns) -> output (rowCount, rows).
// Inputs are r16(x), so every product is exact. Accumulates in f32: ascending within segments of 256 inputs, segments
// ascending, then the bias.
// Schedules: canonical; and fast where there is no quicker instruction. Sums of even and odd inputs apart, without
// segments, measured 0.9 of this speed with AVX2 and no more than it with AVX-512: the widening of weights is what takes time.
#pragma once
#include "primitives.inl.h"
#include "sets.h"

namespace stet::cpu {
namespace {

constexpr int segmentPairs = 128;  // 256 inputs

inline int bf16Pairs(int32_t columns) { return ceilDiv(columns, 32) * 16; }
inline size_t bf16TileWords(int32_t columns) { return static_cast<size_t>(bf16Pairs(columns)) * tileOutputs; }

inline size_t floatInputBytes(int32_t columns) { return roundUp64(static_cast<size_t>(bf16Pairs(columns)) * 2 * sizeof(float)); }

template <class S> void prepareFloatInput(const float* input, int32_t columns, std::byte* prepared) {
  float* output = reinterpret_cast<float*>(prepared);
  const int padded = bf16Pairs(columns) * 2;
  for (int k = 0; k < padded; k += S::width) {
    const int rest = columns - k;
    const auto x = rest >= S::width ? S::load(input + k) : rest > 0 ? S::loadFirst(input + k, rest) : S::zero();
    S::store(output + k, r16<S>(x));
  }
}

// Where a call writes: outputs [0, rows) of each row.
struct LinearOutput {
  float* output;
  int64_t stride;
  const float* bias;
  int32_t rows;
};

// Sums of one row and one vector of outputs, from output `first` on.
template <class S> void storeOutputs(const LinearOutput& to, int row, int first, typename S::F sum) {
  int count = to.rows - first;
  if (count <= 0) return;
  if (count > S::width) count = S::width;
  if (to.bias) sum = S::add(sum, S::loadFirst(to.bias + first, count));
  S::storeFirst(to.output + row * to.stride + first, sum, count);
}

// One call's inputs and weights.
struct FloatLinear {
  const uint32_t* weights;
  size_t tileWords;
  const float* input;
  size_t inputFloats;  // of a prepared row
  int pairs;
};

// Adds the products of pairs [begin, end) to the sums.
template <class S, int rows, int vectors>
inline __attribute__((always_inline)) void addPairs(const uint32_t* const* weights, const float* input, size_t inputFloats, int begin,
                                                    int end, typename S::F (&sums)[rows][vectors]) {
  for (int p = begin; p < end; p++) {
    typename S::I words[vectors];
    typename S::F even[vectors], odd[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
      words[v] = S::loadI(weights[v] + static_cast<size_t>(p) * tileOutputs);
      even[v] = S::fromBits(S::template shl<16>(words[v]));
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const auto x = S::splat(input[r * inputFloats + static_cast<size_t>(p) * 2]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) sums[r][v] = S::multiplyAddExact(even[v], x, sums[r][v]);
    }
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) odd[v] = S::fromBits(S::andI(words[v], S::splatI(INT32_MIN >> 15)));
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const auto x = S::splat(input[r * inputFloats + static_cast<size_t>(p) * 2 + 1]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) sums[r][v] = S::multiplyAddExact(odd[v], x, sums[r][v]);
    }
  }
}

// `rows` rows from `row` on by `tiles` tiles from `tile` on.
template <class S, int rows, int tiles> void floatBlock(const FloatLinear& linear, const LinearOutput& to, int row, int tile) {
  constexpr int perTile = tileOutputs / S::width;
  constexpr int vectors = tiles * perTile;
  const uint32_t* weights[vectors];
  typename S::F total[rows][vectors];
  for (int v = 0; v < vectors; v++) {
    weights[v] = linear.weights + static_cast<size_t>(tile + v / perTile) * linear.tileWords + v % perTile * S::width;
    for (int r = 0; r < rows; r++) total[r][v] = S::zero();
  }
  const float* input = linear.input + static_cast<size_t>(row) * linear.inputFloats;
  for (int begin = 0; begin < linear.pairs; begin += segmentPairs) {
    typename S::F segment[rows][vectors];
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) segment[r][v] = S::zero();
    }
    const int end = begin + segmentPairs < linear.pairs ? begin + segmentPairs : linear.pairs;
    addPairs<S, rows, vectors>(weights, input, linear.inputFloats, begin, end, segment);
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) total[r][v] = S::add(total[r][v], segment[r][v]);
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < vectors; v++) storeOutputs<S>(to, row + r, tile * tileOutputs + v * S::width, total[r][v]);
  }
}

// Tiles in steps of `tiles`, then of half as many.
template <class S, int rows, int tiles>
void floatTiles(const FloatLinear& linear, const LinearOutput& to, int row, int tile, int tileEnd) {
  for (; tile + tiles <= tileEnd; tile += tiles) floatBlock<S, rows, tiles>(linear, to, row, tile);
  if constexpr (tiles > 1) floatTiles<S, rows, tiles / 2>(linear, to, row, tile, tileEnd);
}

// Blocks of exactly `rowCount` rows, at most `rows`.
template <class S, class Shape, int rows>
void floatRows(const FloatLinear& linear, const LinearOutput& to, int row, int rowCount, int tile, int tileEnd) {
  if (rowCount == rows) return floatTiles<S, rows, Shape::tiles[rows - 1]>(linear, to, row, tile, tileEnd);
  if constexpr (rows > 1) floatRows<S, Shape, rows - 1>(linear, to, row, rowCount, tile, tileEnd);
}

// Tiles whose weights stay in the second-level cache while all rows pass over them, a multiple of `unit`.
inline int stripTiles(size_t tileBytes, int unit) {
  constexpr size_t cacheBytes = 192 * 1024;
  const int tiles = static_cast<int>(cacheBytes / tileBytes) / unit * unit;
  return tiles < unit ? unit : tiles;
}

// `Shape`: the largest block of rows, and the tiles that go with a block of each size, so that sums fill the registers.
// Blocks are of nearly one size: 9 rows are 5 and 4, not 8 and a lone one that reads the weights for itself.
template <class S, class Shape>
void floatLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin,
                 int32_t tileEnd, float* output, int64_t outputStride) {
  const FloatLinear linear{reinterpret_cast<const uint32_t*>(matrix.data), bf16TileWords(matrix.columns),
                           reinterpret_cast<const float*>(prepared), floatInputBytes(matrix.columns) / sizeof(float),
                           bf16Pairs(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  const int blocks = ceilDiv(rowCount, Shape::rows);
  const int strip = blocks == 1 ? tileEnd - tileBegin : stripTiles(linear.tileWords * sizeof(uint32_t), 12);
  for (int tile = tileBegin; tile < tileEnd; tile += strip) {
    const int end = tile + strip < tileEnd ? tile + strip : tileEnd;
    for (int block = 0, row = 0; block < blocks; block++) {
      const int rows = ceilDiv(rowCount - row, blocks - block);
      floatRows<S, Shape, Shape::rows>(linear, to, row, rows, tile, end);
      row += rows;
    }
  }
}

template <class S, class Shape>
constexpr LinearKernel floatKernel{floatInputBytes, prepareFloatInput<S>, floatLinear<S, Shape>};

}  // namespace
}  // namespace stet::cpu
