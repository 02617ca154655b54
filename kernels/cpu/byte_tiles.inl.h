// The byte linears by tile instructions of int8, for many rows; the same sums and so the same bits as byte_linear.inl.h.
// A tile of inputs holds both planes of one block of up to 8 rows, a tile of weights that block of 16 outputs: one product
// gives their exact dot products. Vectors add those of one block to the sums of the rows, which stay in registers for a
// segment, while the tile unit works on the next block and the operands of the one after that are read.
// Order: sets of rows; in a set pairs of tiles; in a pair segments, whose weights are laid out as operands once for all rows.
// While tiles are in use, f32 products and conversions of 512 bits were measured at one a cycle, not two, but additions and
// integers at two: so sums become f32 by the magic number, not by conversion.
#pragma once
#include "byte_input_avx512.inl.h"
#include "byte_linear.inl.h"
#include "tile_config.h"

namespace stet::cpu {
namespace {

constexpr int fewestTileRows = 6;  // fewer go by VNNI, which measured quicker
constexpr int groupRows = 8;
constexpr int setRows = 64;
constexpr size_t operandBytes = 512;  // weights of a block as a tile operand
constexpr int tileSums = groupRows * 2 * tileOutputs;

struct ByteTilesScratch {
  alignas(64) std::byte operands[2][segmentBlocks][operandBytes];
  alignas(64) float totals[setRows][2][tileOutputs];
  alignas(64) int32_t sums[2][2][tileSums];  // [even and odd block][tile of outputs][row][plane][16 outputs]
};

// Tile 0: inputs; 1 and 2: weights of two tiles of outputs; 4 to 7: sums, [even and odd block][tile of outputs].
inline void configureByteTiles(int rows) {
  TileConfig config;
  for (int tile = 0; tile < 8; tile++) config.rows[tile] = static_cast<uint8_t>(2 * rows);
  config.rowBytes[0] = blockElements;
  config.rows[1] = config.rows[2] = blockQuads;
  publish(&config);
  _tile_loadconfig(&config);
}

// One group of rows within a segment.
struct SegmentPart {
  const std::byte* input;  // first row
  ByteInput layout;
  int begin;               // blocks
  int end;
  Ahead ahead;
};

template <int tiles> inline __attribute__((always_inline)) void loadOperands(const std::byte* x, size_t half, const std::byte* operand) {
  _tile_loadd(0, x, half);
  _tile_loadd(1, operand, 64);
  if constexpr (tiles == 2) _tile_loadd(2, operand + segmentBlocks * operandBytes, 64);
}

// Numbers of tiles are part of an instruction, so they must stand as literals.
template <int tiles, int parity> inline __attribute__((always_inline)) void multiplyBlock() {
  if constexpr (parity == 0) {
    _tile_zero(4);
    if constexpr (tiles == 2) _tile_zero(5);
    _tile_dpbssd(4, 0, 1);
    if constexpr (tiles == 2) _tile_dpbssd(5, 0, 2);
  } else {
    _tile_zero(6);
    if constexpr (tiles == 2) _tile_zero(7);
    _tile_dpbssd(6, 0, 1);
    if constexpr (tiles == 2) _tile_dpbssd(7, 0, 2);
  }
}

template <int tiles, int parity> inline __attribute__((always_inline)) void storeBlock(int32_t* sums) {
  if constexpr (parity == 0) {
    _tile_stored(4, sums, 64);
    if constexpr (tiles == 2) _tile_stored(5, sums + tileSums, 64);
  } else {
    _tile_stored(6, sums + 2 * tileSums, 64);
    if constexpr (tiles == 2) _tile_stored(7, sums + 3 * tileSums, 64);
  }
}

template <class Format, int rows, int tiles> struct SegmentSums {
  using S = VnniByteLanes;
  using Weights = typename Format::template Vector<S>;

  // Copies of what the caller has, for the tile instructions count as writers of all memory.
  const Weights weights[2];
  const int begin;
  const size_t rowWords;
  const float* const rescale;
  const float* const centreFactor;
  const Ahead ahead;
  __m512 segment[rows][tiles];

  inline __attribute__((always_inline)) SegmentSums(const Weights (&pair)[2], const SegmentPart& part)
      : weights{pair[0], pair[tiles - 1]},
        begin(part.begin),
        rowWords(part.layout.bytes() / sizeof(float)),
        rescale(reinterpret_cast<const float*>(part.layout.rescale(part.input)) + begin),
        centreFactor(reinterpret_cast<const float*>(part.layout.centreFactor(part.input)) + begin),
        ahead(part.ahead) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
      for (int t = 0; t < tiles; t++) segment[r][t] = S::zero();
    }
  }

  // Adds the terms of the segment's block i.
  inline __attribute__((always_inline)) void addBlock(int i, const int32_t* sums) {
    ahead.prefetch<Format>(begin + i);
    const auto toMagic = [](const int32_t* p) { return S::fromBits(S::addI(S::loadI(p), S::splatI(magicBits))); };
#pragma GCC unroll 2
    for (int t = 0; t < tiles; t++) {
      const __m512 scale = weights[t].scale(begin + i);
      const __m512 lowScale = S::mul(scale, S::splat(0.0078125f));
      const __m512 magicScale = S::mul(scale, S::splat(-magic));
      const __m512 magicLowScale = S::mul(lowScale, S::splat(-magic));
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const int32_t* const place = sums + t * tileSums + r * 2 * tileOutputs;
        const size_t column = static_cast<size_t>(r) * rowWords + static_cast<size_t>(i);
        const __m512 high = S::multiplyAddExact(toMagic(place), scale, magicScale);
        const __m512 low = S::multiplyAddExact(toMagic(place + tileOutputs), lowScale, magicLowScale);
        segment[r][t] = S::add(S::multiplyAddExact(segment[r][t], S::splat(rescale[column]), high), low);
        if constexpr (Format::centres) {
          segment[r][t] = S::multiplyAddExact(weights[t].centre(begin + i), S::splat(centreFactor[column]), segment[r][t]);
        }
      }
    }
  }

  // Adds the segment to what `totals` hold; the first one to nothing.
  inline __attribute__((always_inline)) void addTo(float (*totals)[2][tileOutputs], const float* unit) const {
    const __mmask16 held = begin > 0 ? 0xffff : 0;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const __m512 factor = S::splat(unit[static_cast<size_t>(r) * rowWords]);
#pragma GCC unroll 2
      for (int t = 0; t < tiles; t++) {
        S::store(totals[r][t], S::multiplyAddExact(segment[r][t], factor, _mm512_maskz_loadu_ps(held, totals[r][t])));
      }
    }
  }
};

template <class Format, int rows, int tiles>
void addSegment(const typename Format::template Vector<VnniByteLanes> (&weights)[2], const SegmentPart& part, ByteTilesScratch& scratch,
                float (*totals)[2][tileOutputs]) {
  SegmentSums<Format, rows, tiles> segment(weights, part);
  const size_t half = part.layout.half;
  const int count = part.end - part.begin;
  const std::byte* const x = part.input + static_cast<size_t>(part.begin) * blockElements;
  const std::byte* const operands = scratch.operands[0][0];
  int32_t* const sums = scratch.sums[0][0];
  const auto load = [&](int i) __attribute__((always_inline)) {
    if (i < count) loadOperands<tiles>(x + static_cast<size_t>(i) * blockElements, half, operands + static_cast<size_t>(i) * operandBytes);
  };
  // Block i's products are stored, those of the next begun, and the block before added.
  load(0);
  multiplyBlock<tiles, 0>();
  load(1);
  for (int i = 0; i < count; i += 2) {
    if (i + 1 < count) multiplyBlock<tiles, 1>();
    load(i + 2);
    storeBlock<tiles, 0>(sums);
    if (i > 0) segment.addBlock(i - 1, sums + 2 * tileSums);
    if (i + 1 == count) break;
    if (i + 2 < count) multiplyBlock<tiles, 0>();
    load(i + 3);
    storeBlock<tiles, 1>(sums);
    segment.addBlock(i, sums);
  }
  segment.addBlock(count - 1, sums + (count - 1) % 2 * 2 * tileSums);
  segment.addTo(totals, reinterpret_cast<const float*>(part.layout.unit(part.input)) + part.begin / segmentBlocks);
}

template <class Format, int rows, int tiles>
void addSegmentOf(int rowCount, const typename Format::template Vector<VnniByteLanes> (&weights)[2], const SegmentPart& part,
                  ByteTilesScratch& scratch, float (*totals)[2][tileOutputs]) {
  if (rowCount == rows) return addSegment<Format, rows, tiles>(weights, part, scratch, totals);
  if constexpr (rows > 1) addSegmentOf<Format, rows - 1, tiles>(rowCount, weights, part, scratch, totals);
}

// The rows [row, row + rowCount), at most a set, by one or two tiles.
template <class Format, int tiles>
void byteTilePair(const ByteLinear& linear, const LinearOutput& to, int row, int rowCount, int tile, int tileEnd, ByteTilesScratch& scratch) {
  using S = VnniByteLanes;
  const typename Format::template Vector<S> weights[2] = {{linear.matrix, tile, 0}, {linear.matrix, tile + tiles - 1, 0}};
  const ByteInput layout = linear.layout;
  const int groups = ceilDiv(rowCount, groupRows);
  const std::byte* input = linear.input + static_cast<size_t>(row) * layout.bytes();
  int configured = 0;
  for (int begin = 0; begin < layout.blocks; begin += segmentBlocks) {
    const int end = begin + segmentBlocks < layout.blocks ? begin + segmentBlocks : layout.blocks;
    for (int t = 0; t < tiles; t++) weights[t].operands(begin, end, scratch.operands[t][0]);
    publish(&scratch);
    for (int group = 0, first = 0; group < groups; group++) {
      const int rows = ceilDiv(rowCount - first, groups - group);
      if (rows != configured) configureByteTiles(rows);
      configured = rows;
      const SegmentPart part{input + static_cast<size_t>(first) * layout.bytes(), layout, begin, end,
                             aheadOf<Format>(linear.matrix, tile, tiles, tileEnd, group, groups)};
      addSegmentOf<Format, groupRows, tiles>(rows, weights, part, scratch, scratch.totals + first);
      first += rows;
    }
  }
  for (int r = 0; r < rowCount; r++) {
    for (int t = 0; t < tiles; t++) storeOutputs<S>(to, row + r, (tile + t) * tileOutputs, S::load(scratch.totals[r][t]));
  }
}

template <class Format>
void byteTiles(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin, int32_t tileEnd,
               float* output, int64_t outputStride) {
  if (rowCount < fewestTileRows) {
    return byteLinear<VnniByteLanes, Format, VnniByteShape>(matrix, prepared, rowCount, bias, tileBegin, tileEnd, output, outputStride);
  }
  const ByteLinear linear{matrix, prepared, ByteInput(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  ByteTilesScratch scratch;
  const int sets = ceilDiv(rowCount, setRows);
  for (int set = 0, row = 0; set < sets; set++) {
    const int rows = ceilDiv(rowCount - row, sets - set);
    int tile = tileBegin;
    for (; tile + 2 <= tileEnd; tile += 2) byteTilePair<Format, 2>(linear, to, row, rows, tile, tileEnd, scratch);
    if (tile < tileEnd) byteTilePair<Format, 1>(linear, to, row, rows, tile, tileEnd, scratch);
    row += rows;
  }
  _tile_release();
}

}  // namespace
}  // namespace stet::cpu
