// The byte linears (`q8`, `q4`) over a set of lanes: prepared inputs (rowCount, columns) x weights (rows, columns) ->
// output (rowCount, rows). Dot products of a block accumulate in i32, any order.
// Both schedules: f32, blocks ascending within segments of 8, high plane, low plane, then `q4`'s centre; segments
// ascending; then the bias. How a segment's sum is scaled: byte_input.inl.h.
// `Format` says how a block of a tile is stored (linear_q8.inl.h, linear_q4.inl.h):
//   unsignedWeights, centres; steps, stepQuads: quads are read in so many steps, each `stepQuads` of them, `steps` apart;
//   Vector<S>: one vector of outputs of a tile, with quads(b, step, emit): calls emit(i, four weights of each output) for
//   each quad of a step, scale(b) and centre(b): f32, a lane an output.
#pragma once
#include "byte_input.inl.h"
#include "linear_bf16.inl.h"

namespace stet::cpu {
namespace {

constexpr int blockQuads = blockElements / 4;

// bf16 bits to f32, `width` of them.
template <class S> typename S::F loadBf16(const uint16_t* p) {
  if constexpr (S::width == 1) return ScalarLanes::fromBits(static_cast<int32_t>(static_cast<uint32_t>(*p) << 16));
  else return S::fromBits(S::template shl<16>(S::loadWords(p)));
}

struct ByteLinear {
  const Matrix& matrix;
  const std::byte* input;
  ByteInput layout;
};

// The part of each block of the next tiles that one pass over the blocks of the present ones asks from memory, so that
// reading goes on evenly while sums are made. The last tiles have none after them.
struct Ahead {
  const std::byte* next;
  size_t tileBytes;
  int tiles;
  size_t begin;  // bytes of a block
  size_t end;

  template <class Format> void prefetch(int b) const {
    const std::byte* block = next + static_cast<size_t>(b) * Format::blockStride;
    for (int t = 0; t < tiles; t++, block += tileBytes) {
      for (size_t i = begin; i < end; i += 64) __builtin_prefetch(block + i, 0, 2);
    }
  }
};

// For pass `pass` of `passes` over `tiles` tiles from `tile` on.
template <class Format> Ahead aheadOf(const Matrix& matrix, int tile, int tiles, int tileEnd, int pass, int passes) {
  constexpr size_t lines = Format::blockStride / 64;
  const size_t tileBytes = Format::tileBytes(matrix.columns);
  const int rest = tileEnd - tile - tiles;
  const auto share = [&](int before) { return lines * static_cast<size_t>(before) / static_cast<size_t>(passes) * 64; };
  return {matrix.data + static_cast<size_t>(tile + tiles) * tileBytes, tileBytes, rest < tiles ? rest : tiles, share(pass), share(pass + 1)};
}

// Adds one block's terms to the segment sums of `rows` rows by `vectors` vectors of outputs. `input` is the first row.
template <class S, class Format, int rows, int vectors>
inline __attribute__((always_inline)) void addBlock(const typename Format::template Vector<S> (&weights)[vectors], const ByteInput& layout,
                                                    const std::byte* input, int b, typename S::F (&segment)[rows][vectors]) {
  using I = typename S::I;
  using F = typename S::F;
  const size_t rowBytes = layout.bytes();
  const auto start = [&](int r, int plane) __attribute__((always_inline)) {
    return S::splatI(ScalarLanes::loadI(layout.start(input + static_cast<size_t>(r) * rowBytes, plane) + b * 4));
  };
  I sums[2][rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int plane = 0; plane < 2; plane++) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) sums[plane][r][v] = S::template begin<Format>(start(r, plane));
    }
  }
  const std::byte* x = input + static_cast<size_t>(b) * blockElements;
#pragma GCC unroll 8
  for (int step = 0; step < Format::steps; step++) {
    I w[Format::stepQuads][vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) weights[v].quads(b, step, [&](int quad, I four) { w[quad][v] = four; });
#pragma GCC unroll 2
    for (int quad = 0; quad < Format::stepQuads; quad++) {
      const int offset = (step + quad * Format::steps) * 4;
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int plane = 0; plane < 2; plane++) {
          const I four = S::splatI(ScalarLanes::loadI(layout.plane(x + static_cast<size_t>(r) * rowBytes, plane) + offset));
#pragma GCC unroll 8
          for (int v = 0; v < vectors; v++) sums[plane][r][v] = S::template addQuad<Format>(sums[plane][r][v], w[quad][v], four);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
    const F scale = weights[v].scale(b);
    const F lowScale = S::mul(scale, S::splat(0.0078125f));
    const F magicScale = S::mul(scale, S::splat(-magic));
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const std::byte* row = input + static_cast<size_t>(r) * rowBytes;
      const I high = S::template finish<Format>(sums[0][r][v], start(r, 0));
      F term;
      if constexpr (S::width > 1) term = S::multiplyAddExact(S::fromBits(high), scale, magicScale);
      else term = S::mul(S::toFloat(high), scale);
      F sum = S::multiplyAddExact(segment[r][v], S::splat(reinterpret_cast<const float*>(layout.rescale(row))[b]), term);
      sum = S::multiplyAddExact(S::toFloat(S::template finish<Format>(sums[1][r][v], start(r, 1))), lowScale, sum);
      if constexpr (Format::centres) {
        const F factor = S::splat(reinterpret_cast<const float*>(layout.centreFactor(row))[b]);
        sum = S::multiplyAddExact(weights[v].centre(b), factor, sum);
      }
      segment[r][v] = sum;
    }
  }
}

// `rows` rows from `row` on by `tiles` tiles from `tile` on.
template <class S, class Format, int rows, int tiles>
void byteBlock(const ByteLinear& linear, const LinearOutput& to, const Ahead& ahead, int row, int tile) {
  using F = typename S::F;
  constexpr int perTile = tileOutputs / S::width;
  constexpr int vectors = tiles * perTile;
  const ByteInput layout = linear.layout;
  const std::byte* input = linear.input + static_cast<size_t>(row) * layout.bytes();
  typename Format::template Vector<S> weights[vectors];
  F total[rows][vectors], segment[rows][vectors];
  for (int v = 0; v < vectors; v++) {
    weights[v] = {linear.matrix, tile + v / perTile, v % perTile};
    for (int r = 0; r < rows; r++) total[r][v] = segment[r][v] = S::zero();
  }
  for (int begin = 0, index = 0; begin < layout.blocks; begin += segmentBlocks, index++) {
    const int end = begin + segmentBlocks < layout.blocks ? begin + segmentBlocks : layout.blocks;
    for (int b = begin; b < end; b++) {
      ahead.prefetch<Format>(b);
      addBlock<S, Format, rows, vectors>(weights, layout, input, b, segment);
    }
    for (int r = 0; r < rows; r++) {
      const std::byte* unit = layout.unit(input + static_cast<size_t>(r) * layout.bytes());
      const F factor = S::splat(reinterpret_cast<const float*>(unit)[index]);
      for (int v = 0; v < vectors; v++) total[r][v] = S::multiplyAddExact(segment[r][v], factor, total[r][v]);
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < vectors; v++) storeOutputs<S>(to, row + r, tile * tileOutputs + v * S::width, total[r][v]);
  }
}

// Blocks of exactly `rowCount` rows, at most `rows`, by `tiles` tiles.
template <class S, class Format, int rows, int tiles>
void byteRows(const ByteLinear& linear, const LinearOutput& to, const Ahead& ahead, int row, int rowCount, int tile) {
  if (rowCount == rows) return byteBlock<S, Format, rows, tiles>(linear, to, ahead, row, tile);
  if constexpr (rows > 1) byteRows<S, Format, rows - 1, tiles>(linear, to, ahead, row, rowCount, tile);
}

// All rows by `tiles` tiles, then the next, so that weights come from memory evenly, and from a cache but once.
// Blocks of rows are of nearly one size: 5 rows are 3 and 2, not 4 and a lone one.
template <class S, class Format, int rows, int tiles>
void byteTilesOf(const ByteLinear& linear, const LinearOutput& to, int rowCount, int tile, int tileEnd) {
  const int blocks = ceilDiv(rowCount, rows);
  for (; tile + tiles <= tileEnd; tile += tiles) {
    for (int block = 0, row = 0; block < blocks; block++) {
      const int count = ceilDiv(rowCount - row, blocks - block);
      byteRows<S, Format, rows, tiles>(linear, to, aheadOf<Format>(linear.matrix, tile, tiles, tileEnd, block, blocks), row, count, tile);
      row += count;
    }
  }
  if constexpr (tiles > 1) byteTilesOf<S, Format, rows, tiles / 2>(linear, to, rowCount, tile, tileEnd);
}

// `Shape`: how many rows a block has at most, and tiles; and how many tiles a block of one or two rows has.
template <class S, class Format, class Shape>
void byteLinear(const Matrix& matrix, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin, int32_t tileEnd,
                float* output, int64_t outputStride) {
  const ByteLinear linear{matrix, prepared, ByteInput(matrix.columns)};
  const LinearOutput to{output, outputStride, bias, matrix.rows};
  if (rowCount <= 2) byteTilesOf<S, Format, 2, Shape::fewRowsTiles>(linear, to, rowCount, tileBegin, tileEnd);
  else byteTilesOf<S, Format, Shape::rows, Shape::tiles>(linear, to, rowCount, tileBegin, tileEnd);
}

}  // namespace
}  // namespace stet::cpu
