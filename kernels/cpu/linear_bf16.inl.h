// linear_bf16 by f32 multiply-add: prepared inputs (rowCount, columns) x bf16 weights (rows, columns) -> output (rowCount, rows).
// Inputs are r16(x), so every product is exact. Accumulates in f32.
// canonical: ascending within segments of 256 inputs, segments ascending, then the bias.
// fast, for machines without a bf16 dot instruction: one or two rows keep even and odd inputs in sums of their own,
// without segments, since few outputs at once leave the adders waiting; more rows are canonical, nothing is quicker.
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

// Adds pairs [begin, end) to even and odd, which are the same sums where the order is canonical.
template <class S, Schedule schedule, int rows, int vectors>
inline __attribute__((always_inline)) void addPairs(const uint32_t* const* weights, const float* input, size_t inputFloats, int begin,
                                                    int end, typename S::F (&even)[rows][vectors], typename S::F (&odd)[rows][vectors]) {
  for (int p = begin; p < end; p++) {
    typename S::I words[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) words[v] = S::loadI(weights[v] + static_cast<size_t>(p) * tileOutputs);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const auto x = S::splat(input[r * inputFloats + static_cast<size_t>(p) * 2]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) {
        even[r][v] = S::multiplyAddExact(S::fromBits(S::template shl<16>(words[v])), x, even[r][v]);
      }
    }
    auto& last = schedule == Schedule::canonical ? even : odd;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const auto x = S::splat(input[r * inputFloats + static_cast<size_t>(p) * 2 + 1]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) {
        last[r][v] = S::multiplyAddExact(S::fromBits(S::andI(words[v], S::splatI(INT32_MIN >> 15))), x, last[r][v]);
      }
    }
  }
}

// `rows` rows from `row` on by `tiles` tiles from `tile` on.
template <class S, Schedule schedule, int rows, int tiles>
void floatBlock(const FloatLinear& linear, const LinearOutput& to, int row, int tile) {
  constexpr int perTile = tileOutputs / S::width;
  constexpr int vectors = tiles * perTile;
  const uint32_t* weights[vectors];
  typename S::F total[rows][vectors];
  for (int v = 0; v < vectors; v++) {
    weights[v] = linear.weights + static_cast<size_t>(tile + v / perTile) * linear.tileWords + v % perTile * S::width;
    for (int r = 0; r < rows; r++) total[r][v] = S::zero();
  }
  const float* input = linear.input + static_cast<size_t>(row) * linear.inputFloats;
  const int step = schedule == Schedule::canonical ? segmentPairs : linear.pairs;
  for (int begin = 0; begin < linear.pairs; begin += step) {
    typename S::F even[rows][vectors], odd[rows][vectors];
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) even[r][v] = odd[r][v] = S::zero();
    }
    const int end = begin + step < linear.pairs ? begin + step : linear.pairs;
    addPairs<S, schedule, rows, vectors>(weights, input, linear.inputFloats, begin, end, even, odd);
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) {
        if constexpr (schedule == Schedule::fast) even[r][v] = S::add(even[r][v], odd[r][v]);
        total[r][v] = S::add(total[r][v], even[r][v]);
      }
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < vectors; v++) storeOutputs<S>(to, row + r, tile * tileOutputs + v * S::width, total[r][v]);
  }
}

// Tiles in steps of `tiles`, then of half as many.
template <class S, Schedule schedule, int rows, int tiles>
void floatTiles(const FloatLinear& linear, const LinearOutput& to, int row, int tile, int tileEnd) {
  for (; tile + tiles <= tileEnd; tile += tiles) floatBlock<S, schedule, rows, tiles>(linear, to, row, tile);
  if constexpr (tiles > 1) floatTiles<S, schedule, rows, tiles / 2>(linear, to, row, tile, tileEnd);
}

// Tiles whose weights stay in the second-level cache while all rows pass over them, a multiple of `unit`.
inline int stripTiles(size_t tileBytes, int unit) {
  constexpr size_t cacheBytes = 192 * 1024;
  const int tiles = static_cast<int>(cacheBytes / tileBytes) / unit * unit;
  return tiles < unit ? unit : tiles;
}

// `Shape`: rows and tiles of the largest block, and the tiles of blocks of 4, 2 and 1 rows, so that sums fill the registers.
template <class S, class Shape, Schedule schedule>
void floatLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin,
                 int32_t tileEnd, float* output, int64_t outputStride) {
  const FloatLinear linear{reinterpret_cast<const uint32_t*>(matrix.data), bf16TileWords(matrix.columns),
                           reinterpret_cast<const float*>(prepared), floatInputBytes(matrix.columns) / sizeof(float),
                           bf16Pairs(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  constexpr Schedule canonical = Schedule::canonical;
  const int strip = rowCount <= Shape::rows ? tileEnd - tileBegin : stripTiles(linear.tileWords * sizeof(uint32_t), 4 * Shape::tiles);
  for (int tile = tileBegin; tile < tileEnd; tile += strip) {
    const int end = tile + strip < tileEnd ? tile + strip : tileEnd;
    int row = 0;
    for (; row + Shape::rows <= rowCount; row += Shape::rows) {
      floatTiles<S, canonical, Shape::rows, Shape::tiles>(linear, to, row, tile, end);
    }
    for (; row + 4 <= rowCount; row += 4) floatTiles<S, canonical, 4, Shape::tiles4>(linear, to, row, tile, end);
    for (; row + 2 <= rowCount; row += 2) floatTiles<S, schedule, 2, Shape::tiles2>(linear, to, row, tile, end);
    for (; row < rowCount; row++) floatTiles<S, schedule, 1, Shape::tiles1>(linear, to, row, tile, end);
  }
}

template <class S, class Shape, Schedule schedule>
constexpr LinearKernel floatKernel{floatInputBytes, prepareFloatInput<S>, floatLinear<S, Shape, schedule>};

}  // namespace
}  // namespace stet::cpu
