// linear_bf16, fast, by tile instructions: prepared inputs (rowCount, columns) x bf16 weights (rows, columns)
// -> output (rowCount, rows). Inputs are rounded to bf16. Accumulates in f32, 32 inputs at a time, ascending.
// For any number of rows: even one row is quicker than f32 multiply-add, since the weights need no widening.
#include "linear_bf16_dot.inl.h"
#include "tile_config.h"

namespace stet::cpu {
namespace {

// Accumulators 0 and 1 and tile 4 hold `upper` rows, 2 and 3 and tile 5 `lower` rows.
void configure(int upper, int lower) {
  TileConfig config;
  config.rows[0] = config.rows[1] = config.rows[4] = static_cast<uint8_t>(upper);
  config.rows[2] = config.rows[3] = config.rows[5] = static_cast<uint8_t>(lower ? lower : 1);
  config.rows[6] = config.rows[7] = 16;
  publish(&config);
  _tile_loadconfig(&config);
}

// Stores one accumulator; a tile's number is part of the instruction, so it must stand as a literal.
template <int accumulator> void storeTile(const LinearOutput& to, int row, int rows, int tile) {
  alignas(64) float sums[16 * tileOutputs];
  if constexpr (accumulator == 0) _tile_stored(0, sums, 64);
  if constexpr (accumulator == 1) _tile_stored(1, sums, 64);
  if constexpr (accumulator == 2) _tile_stored(2, sums, 64);
  if constexpr (accumulator == 3) _tile_stored(3, sums, 64);
  for (int r = 0; r < rows; r++) storeOutputs<Avx512Lanes>(to, row + r, tile * tileOutputs, _mm512_load_ps(sums + r * tileOutputs));
}

// Up to 32 rows by two tiles of outputs; `both` says whether the second tile is there.
template <bool lowerRows, bool secondTile>
void tileBlock(const DotLinear& linear, const LinearOutput& to, int row, int upper, int lower, int tile) {
  _tile_zero(0);
  if constexpr (secondTile) _tile_zero(1);
  if constexpr (lowerRows) _tile_zero(2);
  if constexpr (lowerRows && secondTile) _tile_zero(3);
  const std::byte* input = linear.input + static_cast<size_t>(row) * linear.inputBytes;
  const std::byte* below = input + 16 * linear.inputBytes;
  const uint32_t* weights = linear.weights + static_cast<size_t>(tile) * linear.tileWords;
  for (int p = 0; p < linear.pairs; p += 16) {
    _tile_loadd(4, input + static_cast<size_t>(p) * 4, linear.inputBytes);
    _tile_loadd(6, weights + static_cast<size_t>(p) * tileOutputs, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (secondTile) {
      _tile_loadd(7, weights + linear.tileWords + static_cast<size_t>(p) * tileOutputs, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (lowerRows) {
      _tile_loadd(5, below + static_cast<size_t>(p) * 4, linear.inputBytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (secondTile) _tile_dpbf16ps(3, 5, 7);
    }
  }
  storeTile<0>(to, row, upper, tile);
  if constexpr (secondTile) storeTile<1>(to, row, upper, tile + 1);
  if constexpr (lowerRows) storeTile<2>(to, row + 16, lower, tile);
  if constexpr (lowerRows && secondTile) storeTile<3>(to, row + 16, lower, tile + 1);
}

void tileRows(const DotLinear& linear, const LinearOutput& to, int row, int rows, int tile, int tileEnd) {
  const int upper = rows < 16 ? rows : 16;
  const int lower = rows - upper;
  for (; tile + 2 <= tileEnd; tile += 2) {
    if (lower) tileBlock<true, true>(linear, to, row, upper, lower, tile);
    else tileBlock<false, true>(linear, to, row, upper, lower, tile);
  }
  if (tile == tileEnd) return;
  if (lower) tileBlock<true, false>(linear, to, row, upper, lower, tile);
  else tileBlock<false, false>(linear, to, row, upper, lower, tile);
}

void tileLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin, int32_t tileEnd,
                float* output, int64_t outputStride) {
  const DotLinear linear{reinterpret_cast<const uint32_t*>(matrix.data), bf16TileWords(matrix.columns), prepared,
                         dotInputBytes(matrix.columns), bf16Pairs(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  const int strip = rowCount <= 32 ? tileEnd - tileBegin : stripTiles(linear.tileWords * sizeof(uint32_t), 2);
  int configured = 0;
  publish(prepared);
  for (int tile = tileBegin; tile < tileEnd; tile += strip) {
    const int end = tile + strip < tileEnd ? tile + strip : tileEnd;
    for (int row = 0; row < rowCount; row += 32) {
      const int rows = rowCount - row < 32 ? rowCount - row : 32;
      if (rows != configured) configure(rows < 16 ? rows : 16, rows < 16 ? 0 : rows - 16);
      configured = rows;
      tileRows(linear, to, row, rows, tile, end);
    }
  }
  _tile_release();
}

}  // namespace

const LinearKernel amxBf16{dotInputBytes, prepareDotInput, tileLinear};

}  // namespace stet::cpu
