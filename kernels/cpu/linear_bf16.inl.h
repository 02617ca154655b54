// linear_bf16 by f32 multiply-add: prepared inputs (rowCount, columns) x bf16 weights (rows, columns) -> output (rowCount, rows).
// Inputs are r16(x), so every product is exact. Accumulates in f32.
// canonical: ascending within segments of 256 inputs, segments ascending, then the bias. Blocks of few sums take several
// segments at once, since each addition waits for the one before.
// fast, where no quicker instruction is at hand: blocks of few sums cut all inputs into equal pieces and add those up.
// Blocks that fill the adders are canonical: more sums measured 0.9 of their speed with AVX2 and no more with AVX-512.
#pragma once
#include "primitives.inl.h"
#include "sets.h"

namespace stet::cpu {
namespace {

constexpr int canonicalSegmentPairs = 128;  // 256 inputs

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
  int segmentPairs;  // of a segment; the last one has the rest
};

// Adds `count` pairs of each of `pieces` pieces, which begin `stride` pairs apart, to a sum of each piece.
template <class S, int rows, int vectors, int pieces>
inline __attribute__((always_inline)) void addPairs(const uint32_t* const* weights, const float* input, size_t inputFloats, int begin,
                                                    int stride, int count, typename S::F (&sums)[pieces][rows][vectors]) {
  for (int i = 0; i < count; i++) {
#pragma GCC unroll 8
    for (int piece = 0; piece < pieces; piece++) {
      const size_t p = static_cast<size_t>(begin + piece * stride + i);
      typename S::I words[vectors];
      typename S::F even[vectors], odd[vectors];
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) {
        words[v] = S::loadI(weights[v] + p * tileOutputs);
        even[v] = S::fromBits(S::template shl<16>(words[v]));
      }
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        const auto x = S::splat(input[r * inputFloats + p * 2]);
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) sums[piece][r][v] = S::multiplyAddExact(even[v], x, sums[piece][r][v]);
      }
#pragma GCC unroll 16
      for (int v = 0; v < vectors; v++) odd[v] = S::fromBits(S::andI(words[v], S::splatI(INT32_MIN >> 15)));
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        const auto x = S::splat(input[r * inputFloats + p * 2 + 1]);
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) sums[piece][r][v] = S::multiplyAddExact(odd[v], x, sums[piece][r][v]);
      }
    }
  }
}

// Sums `pieces` pieces from pair `begin` on and adds them to the total, ascending.
template <class S, int rows, int vectors, int pieces>
inline __attribute__((always_inline)) void addPieces(const FloatLinear& linear, const uint32_t* const* weights, const float* input,
                                                     int begin, int stride, int count, typename S::F (&total)[rows][vectors]) {
  typename S::F sums[pieces][rows][vectors];
  for (int piece = 0; piece < pieces; piece++) {
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) sums[piece][r][v] = S::zero();
    }
  }
  addPairs<S, rows, vectors, pieces>(weights, input, linear.inputFloats, begin, stride, count, sums);
  for (int piece = 0; piece < pieces; piece++) {
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) total[r][v] = S::add(total[r][v], sums[piece][r][v]);
    }
  }
}

// Segments from pair `begin` on, `pieces` at once while there are as many whole ones, then half as many.
template <class S, int rows, int vectors, int pieces>
inline __attribute__((always_inline)) void addSegments(const FloatLinear& linear, const uint32_t* const* weights, const float* input,
                                                       int begin, typename S::F (&total)[rows][vectors]) {
  const int length = linear.segmentPairs;
  for (; begin + pieces * length <= linear.pairs; begin += pieces * length) {
    addPieces<S, rows, vectors, pieces>(linear, weights, input, begin, length, length, total);
  }
  if constexpr (pieces > 1) addSegments<S, rows, vectors, pieces / 2>(linear, weights, input, begin, total);
  else if (begin < linear.pairs) addPieces<S, rows, vectors, 1>(linear, weights, input, begin, length, linear.pairs - begin, total);
}

// Pieces at once, so that about eight sums are under way: a power of two, for it divides the pairs.
constexpr int piecesFor(int sums) { return sums >= 8 ? 1 : sums >= 4 ? 2 : sums >= 2 ? 4 : 8; }

// `rows` rows from `row` on by `tiles` tiles from `tile` on.
template <class S, Schedule schedule, int rows, int tiles>
void floatBlock(const FloatLinear& linear, const LinearOutput& to, int row, int tile) {
  constexpr int perTile = tileOutputs / S::width;
  constexpr int vectors = tiles * perTile;
  constexpr int pieces = piecesFor(rows * vectors);
  const uint32_t* weights[vectors];
  typename S::F total[rows][vectors];
  for (int v = 0; v < vectors; v++) {
    weights[v] = linear.weights + static_cast<size_t>(tile + v / perTile) * linear.tileWords + v % perTile * S::width;
    for (int r = 0; r < rows; r++) total[r][v] = S::zero();
  }
  const float* input = linear.input + static_cast<size_t>(row) * linear.inputFloats;
  if constexpr (schedule == Schedule::fast && pieces > 1) {
    const int count = linear.pairs / pieces;
    addPieces<S, rows, vectors, pieces>(linear, weights, input, 0, count, count, total);
  } else {
    addSegments<S, rows, vectors, pieces>(linear, weights, input, 0, total);
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

// Blocks of exactly `rowCount` rows, at most `rows`.
template <class S, Schedule schedule, class Shape, int rows>
void floatRows(const FloatLinear& linear, const LinearOutput& to, int row, int rowCount, int tile, int tileEnd) {
  if (rowCount == rows) return floatTiles<S, schedule, rows, Shape::tiles[rows - 1]>(linear, to, row, tile, tileEnd);
  if constexpr (rows > 1) floatRows<S, schedule, Shape, rows - 1>(linear, to, row, rowCount, tile, tileEnd);
}

// Tiles whose weights stay in the second-level cache while all rows pass over them, a multiple of `unit`.
inline int stripTiles(size_t tileBytes, int unit) {
  constexpr size_t cacheBytes = 192 * 1024;
  const int tiles = static_cast<int>(cacheBytes / tileBytes) / unit * unit;
  return tiles < unit ? unit : tiles;
}

inline FloatLinear floatLinearOf(const Matrix& matrix, const std::byte* prepared, int segmentPairs) {
  return {reinterpret_cast<const uint32_t*>(matrix.data), bf16TileWords(matrix.columns), reinterpret_cast<const float*>(prepared),
          floatInputBytes(matrix.columns) / sizeof(float), bf16Pairs(matrix.columns), segmentPairs};
}

// `Shape`: the largest block of rows, and the tiles that go with a block of each size, so that sums fill the registers.
// Blocks are of nearly one size: 9 rows are 5 and 4, not 8 and a lone one that reads the weights for itself.
template <class S, Schedule schedule, class Shape>
void runFloatLinear(const FloatLinear& linear, const LinearOutput& to, int rowCount, int tileBegin, int tileEnd) {
  const int blocks = ceilDiv(rowCount, Shape::rows);
  const int strip = blocks == 1 ? tileEnd - tileBegin : stripTiles(linear.tileWords * sizeof(uint32_t), 12);
  for (int tile = tileBegin; tile < tileEnd; tile += strip) {
    const int end = tile + strip < tileEnd ? tile + strip : tileEnd;
    for (int block = 0, row = 0; block < blocks; block++) {
      const int rows = ceilDiv(rowCount - row, blocks - block);
      floatRows<S, schedule, Shape, Shape::rows>(linear, to, row, rows, tile, end);
      row += rows;
    }
  }
}

template <class S, Schedule schedule, class Shape>
void floatLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin,
                 int32_t tileEnd, float* output, int64_t outputStride) {
  runFloatLinear<S, schedule, Shape>(floatLinearOf(matrix, prepared, canonicalSegmentPairs), {output, outputStride, bias, matrix.rows},
                                     rowCount, tileBegin, tileEnd);
}

template <class S, Schedule schedule, class Shape>
constexpr LinearKernel floatKernel{floatInputBytes, prepareFloatInput<S>, floatLinear<S, schedule, Shape>};

}  // namespace
}  // namespace stet::cpu
