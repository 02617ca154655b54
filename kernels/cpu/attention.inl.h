// attention: rowCount rows of one sequence, headsPerKv query heads each, over one K/V head of paged Q15 blocks
// -> output like query. Causal: row r attends to positions up to firstPosition + r, with a window to the last ones alone.
// Accumulates in i32 within chunks of 64 absolute positions (any order) and in f32 across chunks, ascending.
// Both schedules: for 16 positions and 4 dimensions the integers take 3 dot instructions, floats would take 4
// multiply-adds and the widening of both planes besides.
// Queries (row, head) that share the K/V head go through together, so that a load of keys or values serves several.
#pragma once
#include "attention_query.inl.h"

namespace stet::cpu {
namespace {

constexpr int maxQueries = 6;  // queries that share their loads

inline size_t attentionScratchBytes(int32_t, int32_t, int32_t) { return sizeof(Query) * maxQueries; }

inline int32_t quadOf(const void* bytes) { return ScalarLanes::loadI(bytes); }

// T of `width` positions for each query, from position `lane` of group t on.
template <class S, int queries>
void scoreLanes(const KvLayout& layout, const Chunk& chunk, int t, int lane, float scale, Query* query) {
  using I = typename S::I;
  typename S::F s[queries];
  for (int q = 0; q < queries; q++) s[q] = S::zero();
  const std::byte* keys = chunk.groups[t] + lane * 4;
  const auto* exponents = reinterpret_cast<const int8_t*>(chunk.groups[t] + layout.keyExponentStart() + lane);
  for (int b = 0; b < layout.blocks; b++, keys += pairBytes) {
    I hh[queries], hl[queries], lh[queries];
    for (int q = 0; q < queries; q++) {
      hh[q] = S::splatI(query[q].highBias[b]);
      hl[q] = hh[q];
      lh[q] = S::splatI(query[q].lowBias[b]);
    }
#pragma GCC unroll 8
    for (int k = 0; k < blockElements / 4; k++) {
      const I high = S::loadI(keys + k * 64);
      const I low = S::loadI(keys + planeBytes + k * 64);
#pragma GCC unroll 8
      for (int q = 0; q < queries; q++) {
        const I x = S::splatI(quadOf(query[q].high + b * blockElements + k * 4));
        const I y = S::splatI(quadOf(query[q].low + b * blockElements + k * 4));
        hh[q] = S::dotStored(hh[q], high, x);
        hl[q] = S::dotStored(hl[q], low, x);
        lh[q] = S::dotStored(lh[q], high, y);
      }
    }
    const auto keyScale = pow2Lanes<S>(S::loadBytes(exponents + b * groupPositions));
    for (int q = 0; q < queries; q++) {
      s[q] = S::multiplyAddExact(S::toFloat(hh[q]), S::mul(keyScale, S::splat(query[q].scale[b])), s[q]);
      s[q] = S::multiplyAddExact(S::toFloat(S::addI(hl[q], lh[q])), S::mul(keyScale, S::splat(query[q].lowScale[b])), s[q]);
    }
  }
  for (int q = 0; q < queries; q++) S::storeI(query[q].fixed + t * groupPositions + lane, fixScores<S>(s[q], scale));
}

// Adds a chunk's weighted values of `vectors` vectors of dimensions, from `lane` of block b on, to active queries.
template <class S, int queries, int vectors>
void valueLanes(const KvLayout& layout, const Chunk& chunk, int b, int lane, const bool* active, Query* query) {
  using I = typename S::I;
  // Two sums where the registers do not hold three.
  constexpr bool three = queries * vectors <= 6;
  I hh[queries][vectors], hl[queries][vectors], lh[queries][vectors];
  for (int q = 0; q < queries; q++) {
    for (int v = 0; v < vectors; v++) hh[q][v] = hl[q][v] = lh[q][v] = S::splatI(0);
  }
  const size_t start = layout.valueStart() + static_cast<size_t>(b) * pairBytes + static_cast<size_t>(lane) * 4;
  for (unsigned quad = chunk.begin / 4; quad * 4 < chunk.end; quad++) {
    const std::byte* values = chunk.groups[quad / 4] + start + quad % 4 * 128;
    I high[vectors], low[vectors];
    for (int v = 0; v < vectors; v++) {
      high[v] = S::loadI(values + v * S::width * 4);
      low[v] = S::loadI(values + planeBytes + v * S::width * 4);
    }
#pragma GCC unroll 8
    for (int q = 0; q < queries; q++) {
      const I x = S::splatI(quadOf(query[q].weightHigh + quad * 4));
      const I y = S::splatI(quadOf(query[q].weightLow + quad * 4));
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        hh[q][v] = S::dotUnsigned(hh[q][v], x, high[v]);
        hl[q][v] = S::dotUnsigned(hl[q][v], x, low[v]);
        I& mixed = three ? lh[q][v] : hl[q][v];
        mixed = S::dotUnsigned(mixed, y, high[v]);
      }
    }
  }
  for (int q = 0; q < queries; q++) {
    if (!active[q]) continue;
    for (int v = 0; v < vectors; v++) {
      const I sum = S::addI(S::template shl<7>(hh[q][v]), S::addI(hl[q][v], lh[q][v]));
      joinValues<S>(b, b * blockElements + lane + v * S::width, sum, query[q]);
    }
  }
}

template <class S, int queries> void attendChunk(const AttentionArgs& args, const KvLayout& layout, const Chunk& chunk, Query* query) {
  for (int t = chunk.firstGroup(); t < chunk.endGroup(); t++) {
    for (int lane = 0; lane < groupPositions; lane += S::width) scoreLanes<S, queries>(layout, chunk, t, lane, args.scale, query);
  }
  // Rows of a prefill begin and end at different positions: one may have nothing in the first or last chunk of another.
  // Its weights are computed for nothing, which costs less than a branch around them.
  bool active[queries];
  ChunkWeights<S> weights[queries];
  for (int q = 0; q < queries; q++) {
    active[q] = chunk.serves(query[q]);
    weights[q] = splitScores<S>(chunk, query[q]);
    if (active[q]) joinChunk<S>(weights[q], query[q]);
  }
  constexpr int vectors = S::width == 16 ? 2 : 1;
  for (int b = 0; b < layout.blocks; b++) {
    for (int q = 0; q < queries; q++) weighBlock<S>(layout, chunk, b, weights[q], query[q]);
    for (int lane = 0; lane < blockElements; lane += vectors * S::width) {
      valueLanes<S, queries, vectors>(layout, chunk, b, lane, active, query);
    }
  }
}

template <class S, int queries> void attendQueries(const AttentionArgs& args, const KvLayout& layout, int firstQuery) {
  Query* query = reinterpret_cast<Query*>(args.scratch);
  for (int q = 0; q < queries; q++) prepareQuery<S>(args, layout, firstQuery + q, query[q]);
  const int begin = query[0].first;
  const int end = query[queries - 1].end;
  for (int first = begin - begin % chunkPositions; first < end; first += chunkPositions) {
    attendChunk<S, queries>(args, layout, chunkAt(args, layout, first, begin, end), query);
  }
  for (int q = 0; q < queries; q++) finishQuery<S>(args.headSize, query[q]);
}

// Queries [first, count).
template <class S> void attendRest(const AttentionArgs& args, const KvLayout& layout, int first, int count) {
  for (; first + 6 <= count; first += 6) attendQueries<S, 6>(args, layout, first);
  switch (count - first) {
    case 5:
      attendQueries<S, 3>(args, layout, first);
      first += 3;
      [[fallthrough]];
    case 2:
      return attendQueries<S, 2>(args, layout, first);
    case 4:
      return attendQueries<S, 4>(args, layout, first);
    case 3:
      return attendQueries<S, 3>(args, layout, first);
    case 1:
      return attendQueries<S, 1>(args, layout, first);
    default:
      return;
  }
}

template <class S> void attention(Schedule, const AttentionArgs& args) {
  attendRest<S>(args, KvLayout(args.headSize), 0, args.rowCount * args.headsPerKv);
}

}  // namespace
}  // namespace stet::cpu
