// attention by tile instructions of int8, for 16 queries at once; else as attention.inl.h, with the same integer sums and
// so the same bits. A tile of queries holds [high | zeros] or [low | high] of a block of 32 dimensions, a tile of keys
// the high and low planes of 16 positions, so one product gives the high sums and another the mixed ones.
// Fewer than `fewestTileQueries` queries, as in most decoding, go the other way, which measured quicker up to 4.
#pragma once
#include "attention.inl.h"
#include "lanes_avx512vnni.h"
#include "tile_config.h"

namespace stet::cpu {
namespace {

constexpr int tileQueries = 16;
constexpr int fewestTileQueries = 5;

struct TileQuery : Query {
  alignas(64) int8_t operands[maxHeadBlocks][2][64];
};

struct TileScratch {
  TileQuery queries[tileQueries];
  alignas(64) int32_t sums[4][tileQueries][16];
  alignas(64) float scores[groupsPerChunk][tileQueries][16];
  // Values of a block of 32 dimensions: [plane][half of 16 dimensions][quad of positions][16 dimensions][4 positions].
  alignas(64) std::byte values[2][2][16][64];
};

inline size_t tileScratchBytes(int32_t, int32_t, int32_t) { return sizeof(TileScratch); }

// Tiles 0..3 accumulate, 4 and 5 hold queries or weights, 6 and 7 keys or values.
inline void configureTiles(int queries) {
  TileConfig config;
  for (int tile = 0; tile < 6; tile++) config.rows[tile] = static_cast<uint8_t>(queries);
  config.rows[6] = config.rows[7] = 16;
  publish(&config);
  _tile_loadconfig(&config);
}

inline void prepareTileQuery(const AttentionArgs& args, const KvLayout& layout, int index, TileQuery& query) {
  prepareQuery<VnniLanes>(args, layout, index, query);
  for (int b = 0; b < layout.blocks; b++) {
    const int first = b * blockElements;
    std::memcpy(query.operands[b][0], query.high + first, blockElements);
    std::memset(query.operands[b][0] + blockElements, 0, blockElements);
    std::memcpy(query.operands[b][1], query.low + first, blockElements);
    std::memcpy(query.operands[b][1] + blockElements, query.high + first, blockElements);
  }
}

// Adds block b's part to the scores of one group, from its high and mixed sums; the last block turns them into T.
inline void addScores(const KvLayout& layout, const Chunk& chunk, int b, int t, float scale, int queries, int pair, TileScratch& scratch) {
  using S = VnniLanes;
  const std::byte* exponents = chunk.groups[t] + layout.keyExponentStart() + b * groupPositions;
  const auto keyScale = pow2Lanes<S>(S::loadBytes(reinterpret_cast<const int8_t*>(exponents)));
  for (int q = 0; q < queries; q++) {
    TileQuery& query = scratch.queries[q];
    const auto high = S::addI(S::loadI(scratch.sums[pair * 2][q]), S::splatI(query.highBias[b]));
    const auto mixed = S::addI(S::loadI(scratch.sums[pair * 2 + 1][q]), S::splatI(query.highBias[b] + query.lowBias[b]));
    auto s = b == 0 ? S::zero() : S::load(scratch.scores[t][q]);
    s = S::multiplyAddExact(S::toFloat(high), S::mul(keyScale, S::splat(query.scale[b])), s);
    s = S::multiplyAddExact(S::toFloat(mixed), S::mul(keyScale, S::splat(query.lowScale[b])), s);
    if (b == layout.blocks - 1) S::storeI(query.fixed + t * groupPositions, fixScores<S>(s, scale));
    else S::store(scratch.scores[t][q], s);
  }
}

inline void scoreTiles(const KvLayout& layout, const Chunk& chunk, float scale, int queries, TileScratch& scratch) {
  constexpr size_t stride = sizeof(TileQuery);
  publish(&scratch);
  for (int b = 0; b < layout.blocks; b++) {
    _tile_loadd(4, scratch.queries[0].operands[b][0], stride);
    _tile_loadd(5, scratch.queries[0].operands[b][1], stride);
    for (int t = chunk.firstGroup(); t < chunk.endGroup(); t += 2) {
      _tile_loadd(6, chunk.groups[t] + b * pairBytes, 64);
      _tile_loadd(7, chunk.groups[t + 1] + b * pairBytes, 64);
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      _tile_dpbsud(0, 4, 6);
      _tile_dpbsud(1, 5, 6);
      _tile_dpbsud(2, 4, 7);
      _tile_dpbsud(3, 5, 7);
      _tile_stored(0, scratch.sums[0], 64);
      _tile_stored(1, scratch.sums[1], 64);
      _tile_stored(2, scratch.sums[2], 64);
      _tile_stored(3, scratch.sums[3], 64);
      addScores(layout, chunk, b, t, scale, queries, 0, scratch);
      if (t + 1 < chunk.endGroup()) addScores(layout, chunk, b, t + 1, scale, queries, 1, scratch);
    }
  }
}

// Positions that no query attends to repeat others, their weights are 0.
inline void gatherValues(const KvLayout& layout, const Chunk& chunk, int b, TileScratch& scratch) {
  for (int quad = 0; quad < chunkPositions / 4; quad++) {
    const std::byte* source = chunk.groups[quad / 4] + layout.valueStart() + b * pairBytes + quad % 4 * 128;
    for (int plane = 0; plane < 2; plane++) {
      for (int half = 0; half < 2; half++) {
        _mm512_store_si512(scratch.values[plane][half][quad], _mm512_loadu_si512(source + plane * planeBytes + half * 64));
      }
    }
  }
}

inline void valueTiles(const KvLayout& layout, const Chunk& chunk, int b, int queries, const bool* active, TileScratch& scratch) {
  using S = VnniLanes;
  constexpr size_t stride = sizeof(TileQuery);
  gatherValues(layout, chunk, b, scratch);
  publish(&scratch);
  _tile_loadd(4, scratch.queries[0].weightHigh, stride);
  _tile_loadd(5, scratch.queries[0].weightLow, stride);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(6, scratch.values[0][0], 64);
  _tile_loadd(7, scratch.values[1][0], 64);
  _tile_dpbusd(0, 4, 6);
  _tile_dpbusd(1, 4, 7);
  _tile_dpbusd(1, 5, 6);
  _tile_loadd(6, scratch.values[0][1], 64);
  _tile_loadd(7, scratch.values[1][1], 64);
  _tile_dpbusd(2, 4, 6);
  _tile_dpbusd(3, 4, 7);
  _tile_dpbusd(3, 5, 6);
  _tile_stored(0, scratch.sums[0], 64);
  _tile_stored(1, scratch.sums[1], 64);
  _tile_stored(2, scratch.sums[2], 64);
  _tile_stored(3, scratch.sums[3], 64);
  for (int q = 0; q < queries; q++) {
    if (!active[q]) continue;
    for (int half = 0; half < 2; half++) {
      const auto high = S::loadI(scratch.sums[half * 2][q]);
      const auto sum = S::addI(S::shl<7>(high), S::loadI(scratch.sums[half * 2 + 1][q]));
      joinValues<S>(b, b * blockElements + half * 16, sum, scratch.queries[q]);
    }
  }
}

inline void attendTiles(const AttentionArgs& args, const KvLayout& layout, int firstQuery, int queries) {
  using S = VnniLanes;
  TileScratch& scratch = *reinterpret_cast<TileScratch*>(args.scratch);
  configureTiles(queries);
  for (int q = 0; q < queries; q++) prepareTileQuery(args, layout, firstQuery + q, scratch.queries[q]);
  const int begin = scratch.queries[0].first;
  const int end = scratch.queries[queries - 1].end;
  for (int first = begin - begin % chunkPositions; first < end; first += chunkPositions) {
    const Chunk chunk = chunkAt(args, layout, first, begin, end);
    scoreTiles(layout, chunk, args.scale, queries, scratch);
    bool active[tileQueries];
    ChunkWeights<S> weights[tileQueries];
    for (int q = 0; q < queries; q++) {
      active[q] = chunk.serves(scratch.queries[q]);
      if (!active[q]) continue;
      weights[q] = splitScores<S>(chunk, scratch.queries[q]);
      joinChunk<S>(weights[q], scratch.queries[q]);
    }
    for (int b = 0; b < layout.blocks; b++) {
      for (int q = 0; q < queries; q++) {
        if (active[q]) weighBlock<S>(layout, chunk, b, weights[q], scratch.queries[q]);
      }
      valueTiles(layout, chunk, b, queries, active, scratch);
    }
  }
  for (int q = 0; q < queries; q++) finishQuery<S>(args.headSize, scratch.queries[q]);
}

inline void tileAttention(Schedule, const AttentionArgs& args) {
  const KvLayout layout(args.headSize);
  const int count = args.rowCount * args.headsPerKv;
  int first = 0;
  while (count - first >= fewestTileQueries) {
    const int queries = count - first < tileQueries ? count - first : tileQueries;
    attendTiles(args, layout, first, queries);
    first += queries;
  }
  if (first > 0) _tile_release();
  attendRest<VnniLanes>(args, layout, first, count);
}

}  // namespace
}  // namespace stet::cpu
