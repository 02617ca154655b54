// attention: rowCount rows of one sequence, headsPerKv query heads each, over one K/V head of paged Q15 blocks
// -> output like query. Causal: row r attends to positions 0..firstPosition + r.
// Accumulates in i32 within chunks of 64 absolute positions (any order) and in f32 across chunks, ascending.
// Both schedules.
// Queries (row, head) that share the K/V head go through together, so that a load of keys or values serves several.
#pragma once
#include "kernels.h"
#include "kv_layout.inl.h"
#include "q15.inl.h"

namespace stet::cpu {
namespace {

constexpr int maxQueries = 6;                  // queries that share their loads
constexpr int32_t masked = -0x20000000;        // exponent of a position that is not attended to: every shift gives 0
constexpr int groupsPerChunk = chunkPositions / groupPositions;

// One query and its running result.
struct Query {
  const float* input;
  float* output;
  int positions;                               // attends to 0..positions-1
  float sum;                                   // l
  int32_t exponent;                            // M
  float oldFactor, newFactor;                  // of the current chunk's combine
  int32_t chunkExponent;                       // M_c
  int32_t exponents[maxPaddedHead / blockElements];
  int32_t highBias[maxPaddedHead / blockElements];   // where sums start, for keys that carry a bias
  int32_t mixedBias[maxPaddedHead / blockElements];
  alignas(64) int8_t high[maxPaddedHead];
  alignas(64) int8_t low[maxPaddedHead];
  alignas(64) float result[maxPaddedHead];
  alignas(64) int32_t n[chunkPositions];       // integer part of the base-2 score
  alignas(64) int32_t e[chunkPositions];       // exp2 of its fraction, 14 bits
  alignas(64) uint8_t weightHigh[chunkPositions];
  alignas(64) uint8_t weightLow[chunkPositions];
};

// The groups of a chunk, and how many of its positions any query attends to.
struct Chunk {
  const std::byte* groups[groupsPerChunk];
  int first;                                   // absolute position
  int count;
  int groupCount;
};

inline size_t attentionScratchBytes(int32_t, int32_t, int32_t) { return sizeof(Query) * maxQueries; }

template <class S> void prepareQuery(const AttentionArgs& args, const KvLayout& layout, int index, Query& query) {
  const int row = index / args.headsPerKv;
  const int64_t head = static_cast<int64_t>(index % args.headsPerKv) * args.headSize;
  query.input = args.query + row * args.queryStride + head;
  query.output = args.output + row * args.outputStride + head;
  query.positions = args.firstPosition + row + 1;
  for (int b = 0; b < layout.blocks; b++) {
    const int first = b * blockElements;
    const int count = args.headSize - first;
    PlaneSums sums;
    query.exponents[b] = quantizeToPlanes<S>(query.input + first, count < blockElements ? count : blockElements,
                                             query.high + first, query.low + first, sums);
    query.highBias[b] = -S::operandBias * sums.high;
    query.mixedBias[b] = -S::operandBias * (sums.high + sums.low);
  }
}

inline Chunk chunkAt(const AttentionArgs& args, const KvLayout& layout, int first, int end) {
  Chunk chunk{};
  chunk.first = first;
  chunk.count = end - first < chunkPositions ? end - first : chunkPositions;
  chunk.groupCount = ceilDiv(chunk.count, groupPositions);
  for (int t = 0; t < chunk.groupCount; t++) {
    const int position = first + t * groupPositions;
    chunk.groups[t] = args.kv + args.blocks[position / args.blockSize] * args.blockStride +
                      layout.groupBytes() * static_cast<size_t>(position % args.blockSize / groupPositions);
  }
  return chunk;
}

inline int32_t quadOf(const void* bytes) { return ScalarLanes::loadI(bytes); }

// s of `width` positions for each query, from position `lane` of group t on; into n and e.
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
      hl[q] = S::splatI(0);
      lh[q] = S::splatI(query[q].mixedBias[b]);
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
    const I keyExponent = S::loadBytes(exponents + b * groupPositions);
    for (int q = 0; q < queries; q++) {
      const I exponent = S::addI(keyExponent, S::splatI(query[q].exponents[b]));
      s[q] = S::multiplyAddExact(S::toFloat(hh[q]), pow2Lanes<S>(exponent), s[q]);
      s[q] = S::multiplyAddExact(S::toFloat(S::addI(hl[q], lh[q])), pow2Lanes<S>(S::subI(exponent, S::splatI(7))), s[q]);
    }
  }
  const int position = t * groupPositions + lane;
  for (int q = 0; q < queries; q++) {
    const auto x = S::maximum(S::minimum(S::mul(s[q], S::splat(scale)), S::splat(1073741824.0f)), S::splat(-1073741824.0f));
    const I fixed = S::toIntTruncate(x);
    const auto attended = S::lessI(S::laneIndex(), S::splatI(query[q].positions - chunk.first - position));
    S::storeI(query[q].n + position, S::selectI(attended, S::template sar<16>(fixed), S::splatI(masked)));
    S::storeI(query[q].e + position, S::template shr<2>(exp2q<S>(S::andI(fixed, S::splatI(0xffff)))));
  }
}

// M_c and l_c of a chunk, and how its part joins what came before.
template <class S> void joinChunk(const Chunk& chunk, int positions, Query& query) {
  auto largest = S::splatI(masked);
  for (int j = 0; j < positions; j += S::width) largest = S::maxI(largest, S::loadI(query.n + j));
  const int32_t chunkExponent = S::maxAll(largest);
  auto sum = S::splatI(0);
  for (int j = 0; j < positions; j += S::width) {
    const auto shift = S::subI(S::splatI(chunkExponent), S::loadI(query.n + j));
    sum = S::addI(sum, roundingShift<S>(S::loadI(query.e + j), shift));
  }
  const bool first = chunk.first == 0;
  const int32_t exponent = first || chunkExponent > query.exponent ? chunkExponent : query.exponent;
  query.oldFactor = first ? 1.0f : scaleFactor(exponent - query.exponent);
  query.newFactor = scaleFactor(exponent - chunkExponent);
  query.chunkExponent = chunkExponent;
  query.exponent = exponent;
  const float chunkSum = scaleDown<ScalarLanes>(static_cast<float>(S::sumAll(sum)), query.newFactor);
  query.sum = first ? chunkSum : scaleDown<ScalarLanes>(query.sum, query.oldFactor) + chunkSum;
}

// P of a block of values, in two parts of 7 bits; returns 2^(B - M_c).
template <class S> float blockWeights(const KvLayout& layout, const Chunk& chunk, int b, int positions, Query& query) {
  const size_t offset = layout.valueExponentStart() + static_cast<size_t>(b) * groupPositions;
  const auto exponentsAt = [&](int j) {
    const std::byte* group = chunk.groups[j / groupPositions];
    return S::addI(S::loadI(query.n + j), S::loadBytes(reinterpret_cast<const int8_t*>(group + offset + j % groupPositions)));
  };
  auto largest = S::splatI(masked);
  for (int j = 0; j < positions; j += S::width) largest = S::maxI(largest, exponentsAt(j));
  const int32_t top = S::maxAll(largest);
  for (int j = 0; j < positions; j += S::width) {
    const auto p = roundingShift<S>(S::loadI(query.e + j), S::subI(S::splatI(top), exponentsAt(j)));
    S::storeBytes(query.weightHigh + j, S::template shr<7>(p));
    S::storeBytes(query.weightLow + j, S::andI(p, S::splatI(127)));
  }
  return pow2(top - query.chunkExponent);
}

// Adds a chunk's weighted values of `width` dimensions, from `lane` of block b on, to the results of active queries.
template <class S, int queries>
void valueLanes(const KvLayout& layout, const Chunk& chunk, int b, int lane, const float* factors, const bool* active, Query* query) {
  using I = typename S::I;
  I hh[queries], hl[queries], lh[queries];
  for (int q = 0; q < queries; q++) hh[q] = hl[q] = lh[q] = S::splatI(0);
  const size_t start = layout.valueStart() + static_cast<size_t>(b) * pairBytes + static_cast<size_t>(lane) * 4;
  for (int quad = 0; quad * 4 < chunk.count; quad++) {
    const std::byte* values = chunk.groups[quad / 4] + start + quad % 4 * 128;
    const I high = S::loadI(values);
    const I low = S::loadI(values + planeBytes);
#pragma GCC unroll 8
    for (int q = 0; q < queries; q++) {
      const I x = S::splatI(quadOf(query[q].weightHigh + quad * 4));
      const I y = S::splatI(quadOf(query[q].weightLow + quad * 4));
      hh[q] = S::dotUnsigned(hh[q], x, high);
      hl[q] = S::dotUnsigned(hl[q], x, low);
      lh[q] = S::dotUnsigned(lh[q], y, high);
    }
  }
  for (int q = 0; q < queries; q++) {
    if (!active[q]) continue;
    const I sum = S::addI(S::template shl<7>(hh[q]), S::addI(hl[q], lh[q]));
    const auto part = scaleDown<S>(S::mul(S::toFloat(sum), S::splat(factors[q])), S::splat(query[q].newFactor));
    float* result = query[q].result + b * blockElements + lane;
    const auto old = chunk.first == 0 ? S::zero() : scaleDown<S>(S::load(result), S::splat(query[q].oldFactor));
    S::store(result, S::add(old, part));
  }
}

template <class S, int queries> void attendChunk(const AttentionArgs& args, const KvLayout& layout, const Chunk& chunk, Query* query) {
  const int positions = chunk.groupCount * groupPositions;
  for (int t = 0; t < chunk.groupCount; t++) {
    for (int lane = 0; lane < groupPositions; lane += S::width) scoreLanes<S, queries>(layout, chunk, t, lane, args.scale, query);
  }
  // Rows of a prefill end at different positions: one may have nothing left in the last chunk of another.
  bool active[queries];
  for (int q = 0; q < queries; q++) {
    active[q] = query[q].positions > chunk.first;
    if (active[q]) joinChunk<S>(chunk, positions, query[q]);
  }
  for (int b = 0; b < layout.blocks; b++) {
    float factors[queries];
    for (int q = 0; q < queries; q++) factors[q] = active[q] ? blockWeights<S>(layout, chunk, b, positions, query[q]) : 0.0f;
    for (int lane = 0; lane < blockElements; lane += S::width) {
      valueLanes<S, queries>(layout, chunk, b, lane, factors, active, query);
    }
  }
}

template <class S, int queries> void attendQueries(const AttentionArgs& args, const KvLayout& layout, int firstQuery) {
  Query* query = reinterpret_cast<Query*>(args.scratch);
  for (int q = 0; q < queries; q++) prepareQuery<S>(args, layout, firstQuery + q, query[q]);
  const int end = query[queries - 1].positions;
  for (int first = 0; first < end; first += chunkPositions) {
    attendChunk<S, queries>(args, layout, chunkAt(args, layout, first, end), query);
  }
  for (int q = 0; q < queries; q++) {
    const auto inverse = S::splat(recip(query[q].sum));
    for (int i = 0; i < args.headSize; i += S::width) {
      const int rest = args.headSize - i;
      const auto y = S::mul(S::load(query[q].result + i), inverse);
      S::storeFirst(query[q].output + i, y, rest < S::width ? rest : S::width);
    }
  }
}

template <class S> void attention(Schedule, const AttentionArgs& args) {
  const KvLayout layout(args.headSize);
  const int count = args.rowCount * args.headsPerKv;
  int first = 0;
  for (; first + 6 <= count; first += 6) attendQueries<S, 6>(args, layout, first);
  switch (count - first) {
    case 5: attendQueries<S, 3>(args, layout, first), first += 3; [[fallthrough]];
    case 2: return attendQueries<S, 2>(args, layout, first);
    case 4: return attendQueries<S, 4>(args, layout, first);
    case 3: return attendQueries<S, 3>(args, layout, first);
    case 1: return attendQueries<S, 1>(args, layout, first);
    default: return;
  }
}

}  // namespace
}  // namespace stet::cpu
