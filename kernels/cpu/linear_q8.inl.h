// linear_q8: prepared inputs (rowCount, columns) x q8 weights (rows, columns) -> output (rowCount, rows).
// Inputs are Q15: two int8 planes and an exponent a block of 32. Dot products of a block accumulate in i32, any order.
// Both schedules: f32, blocks ascending within segments of 8, high plane then low; segments ascending; then the bias.
// Packed: [tile of 16 outputs][block of 32 inputs]{ [8 quads of inputs][16 outputs][4 inputs] int8, [16 outputs] f32 scales },
// the bytes with the lanes' operand bias.
// embed: row `token` -> output (columns) = fl(quant * scale).
#pragma once
#include "linear_bf16.inl.h"
#include "q15.inl.h"

namespace stet::cpu {
namespace {

constexpr int q8SegmentBlocks = 8;
constexpr size_t q8QuantBytes = 512;
constexpr size_t q8BlockBytes = q8QuantBytes + 64;

inline size_t q8TileBytes(int32_t columns) { return static_cast<size_t>(ceilDiv(columns, blockElements)) * q8BlockBytes; }
inline size_t q8MatrixBytes(int32_t rows, int32_t columns) {
  return static_cast<size_t>(ceilDiv(rows, tileOutputs)) * q8TileBytes(columns);
}

template <class S> void packQ8(const MatrixSource& source, int32_t tileBegin, int32_t tileEnd, std::byte* packed) {
  const int blocks = ceilDiv(source.columns, blockElements);
  constexpr int bias = S::operandBias;
  for (int tile = tileBegin; tile < tileEnd; tile++) {
    std::byte* target = packed + static_cast<size_t>(tile) * q8TileBytes(source.columns);
    for (int b = 0; b < blocks; b++, target += q8BlockBytes) {
      float* scales = reinterpret_cast<float*>(target + q8QuantBytes);
      for (int lane = 0; lane < tileOutputs; lane++) {
        const int output = tile * tileOutputs + lane;
        const bool inside = output < source.rows;
        const size_t index = inside ? static_cast<size_t>(output) * static_cast<size_t>(blocks) + static_cast<size_t>(b) : 0;
        scales[lane] = inside ? source.scales[index] : 0.0f;
        for (int i = 0; i < blockElements; i++) {
          const int quant = inside ? source.quants[index * blockElements + static_cast<size_t>(i)] : 0;
          target[i / 4 * 64 + lane * 4 + i % 4] = static_cast<std::byte>(quant + bias);
        }
      }
    }
  }
}

template <class S> void embedQ8(const Matrix& matrix, int32_t token, float* output) {
  const std::byte* tile = matrix.data + static_cast<size_t>(token / tileOutputs) * q8TileBytes(matrix.columns);
  const int lane = token % tileOutputs;
  for (int k = 0; k < matrix.columns; k++) {
    const std::byte* block = tile + static_cast<size_t>(k / blockElements) * q8BlockBytes;
    const int i = k % blockElements;
    const int quant = static_cast<int8_t>(static_cast<uint8_t>(block[i / 4 * 64 + lane * 4 + i % 4]) - S::operandBias);
    output[k] = static_cast<float>(quant) * reinterpret_cast<const float*>(block + q8QuantBytes)[lane];
  }
}

// A prepared row: high plane, low plane, 2^exponent of each block, where each block's two sums start.
struct Q8Input {
  int blocks;

  explicit Q8Input(int32_t columns) : blocks(ceilDiv(columns, blockElements)) {}
  size_t planeBytes() const { return static_cast<size_t>(blocks) * blockElements; }
  size_t bytes() const { return roundUp64(2 * planeBytes() + static_cast<size_t>(blocks) * 12); }
  template <class Byte> Byte* scales(Byte* row) const { return row + 2 * planeBytes(); }
  template <class Byte> Byte* highBias(Byte* row) const { return scales(row) + blocks * 4; }
  template <class Byte> Byte* lowBias(Byte* row) const { return scales(row) + blocks * 8; }
};

inline size_t q8InputBytes(int32_t columns) { return Q8Input(columns).bytes(); }

template <class S> void prepareQ8Input(const float* input, int32_t columns, std::byte* prepared) {
  const Q8Input layout(columns);
  int8_t* high = reinterpret_cast<int8_t*>(prepared);
  int8_t* low = high + layout.planeBytes();
  float* scales = reinterpret_cast<float*>(layout.scales(prepared));
  int32_t* highBias = reinterpret_cast<int32_t*>(layout.highBias(prepared));
  int32_t* lowBias = reinterpret_cast<int32_t*>(layout.lowBias(prepared));
  for (int b = 0; b < layout.blocks; b++) {
    const int first = b * blockElements;
    const int count = columns - first;
    PlaneSums sums;
    const int exponent = quantizeToPlanes<S>(input + first, count < blockElements ? count : blockElements, high + first, low + first, sums);
    scales[b] = pow2(exponent);
    highBias[b] = -S::operandBias * sums.high;
    lowBias[b] = -S::operandBias * sums.low;
  }
}

struct ByteLinear {
  const std::byte* weights;
  size_t tileBytes;
  const std::byte* input;
  Q8Input layout;
};

// Adds one block's terms to the segment sums.
template <class S, int rows, int vectors>
inline __attribute__((always_inline)) void addBlock(const ByteLinear& linear, const std::byte* const* weights, const std::byte* input, int b,
                                                    typename S::F (&segment)[rows][vectors]) {
  using I = typename S::I;
  constexpr int perTile = tileOutputs / S::width;
  const size_t rowBytes = linear.layout.bytes();
  const size_t planeBytes = linear.layout.planeBytes();
  I high[rows][vectors], low[rows][vectors];
  for (int r = 0; r < rows; r++) {
    const std::byte* row = input + static_cast<size_t>(r) * rowBytes;
    for (int v = 0; v < vectors; v++) {
      high[r][v] = S::splatI(ScalarLanes::loadI(linear.layout.highBias(row) + b * 4));
      low[r][v] = S::splatI(ScalarLanes::loadI(linear.layout.lowBias(row) + b * 4));
    }
  }
  const size_t block = static_cast<size_t>(b) * q8BlockBytes;
#pragma GCC unroll 8
  for (int k = 0; k < blockElements / 4; k++) {
    I w[vectors];
    for (int v = 0; v < vectors; v++) w[v] = S::loadI(weights[v] + block + k * 64);
    for (int r = 0; r < rows; r++) {
      const std::byte* x = input + static_cast<size_t>(r) * rowBytes + b * blockElements + k * 4;
      const I xh = S::splatI(ScalarLanes::loadI(x));
      const I xl = S::splatI(ScalarLanes::loadI(x + planeBytes));
      for (int v = 0; v < vectors; v++) {
        high[r][v] = S::dotStored(high[r][v], w[v], xh);
        low[r][v] = S::dotStored(low[r][v], w[v], xl);
      }
    }
  }
  for (int v = 0; v < vectors; v++) {
    const std::byte* quants = weights[v] - v % perTile * S::width * 4;
    const auto scale = S::load(reinterpret_cast<const float*>(quants + block + q8QuantBytes) + v % perTile * S::width);
    for (int r = 0; r < rows; r++) {
      const std::byte* row = input + static_cast<size_t>(r) * rowBytes;
      const auto factor = S::mul(scale, S::splat(reinterpret_cast<const float*>(linear.layout.scales(row))[b]));
      segment[r][v] = S::multiplyAddExact(S::toFloat(high[r][v]), factor, segment[r][v]);
      segment[r][v] = S::multiplyAddExact(S::toFloat(low[r][v]), S::mul(factor, S::splat(0.0078125f)), segment[r][v]);
    }
  }
}

template <class S, int rows, int tiles> void byteBlock(const ByteLinear& linear, const LinearOutput& to, int row, int tile) {
  constexpr int perTile = tileOutputs / S::width;
  constexpr int vectors = tiles * perTile;
  const std::byte* weights[vectors];
  typename S::F total[rows][vectors];
  for (int v = 0; v < vectors; v++) {
    weights[v] = linear.weights + static_cast<size_t>(tile + v / perTile) * linear.tileBytes + v % perTile * S::width * 4;
    for (int r = 0; r < rows; r++) total[r][v] = S::zero();
  }
  const std::byte* input = linear.input + static_cast<size_t>(row) * linear.layout.bytes();
  for (int begin = 0; begin < linear.layout.blocks; begin += q8SegmentBlocks) {
    typename S::F segment[rows][vectors];
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) segment[r][v] = S::zero();
    }
    const int end = begin + q8SegmentBlocks < linear.layout.blocks ? begin + q8SegmentBlocks : linear.layout.blocks;
    for (int b = begin; b < end; b++) addBlock<S, rows, vectors>(linear, weights, input, b, segment);
    for (int r = 0; r < rows; r++) {
      for (int v = 0; v < vectors; v++) total[r][v] = S::add(total[r][v], segment[r][v]);
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < vectors; v++) storeOutputs<S>(to, row + r, tile * tileOutputs + v * S::width, total[r][v]);
  }
}

template <class S, int rows, int tiles>
void byteTiles(const ByteLinear& linear, const LinearOutput& to, int row, int tile, int tileEnd) {
  for (; tile + tiles <= tileEnd; tile += tiles) byteBlock<S, rows, tiles>(linear, to, row, tile);
  if constexpr (tiles > 1) byteTiles<S, rows, tiles / 2>(linear, to, row, tile, tileEnd);
}

// `tiles`: tiles of a block of one or two rows.
template <class S, int tiles>
void byteLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin, int32_t tileEnd,
                float* output, int64_t outputStride) {
  const ByteLinear linear{matrix.data, q8TileBytes(matrix.columns), prepared, Q8Input(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  const int strip = rowCount <= 2 ? tileEnd - tileBegin : stripTiles(linear.tileBytes, tiles);
  for (int tile = tileBegin; tile < tileEnd; tile += strip) {
    const int end = tile + strip < tileEnd ? tile + strip : tileEnd;
    int row = 0;
    for (; row + 2 <= rowCount; row += 2) byteTiles<S, 2, tiles>(linear, to, row, tile, end);
    for (; row < rowCount; row++) byteTiles<S, 1, tiles>(linear, to, row, tile, end);
  }
}

template <class S, int tiles>
constexpr Q8Set q8Set{{q8MatrixBytes, packQ8<S>, embedQ8<S>}, {q8InputBytes, prepareQ8Input<S>, byteLinear<S, tiles>}};

}  // namespace
}  // namespace stet::cpu
