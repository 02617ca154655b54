// attention of the batch-shaped study mode: rowCount rows of one sequence, headsPerKv query heads each, over one K/V head of
// paged Q15 blocks -> output like query, rounded to bf16. As flash-decoding: the context of the call, from the first position
// that any of its rows attends to, is cut into parts of whole chunks of 64 absolute positions, by batch_shape.h; each part has a softmax
// of its own, and parts are joined in order. The same bits on every instruction set.
// Order: scores are the canonical ones. In a chunk the largest score m of the part so far, weights p = 2^(score - m) of 16
// significant bits (below 2^-60 zero), their sum in 16 lanes over i mod 16, ascending, then folds +8, +4, +2, +1; weights rounded to bf16
// times values, exact products, positions ascending in f32. Chunks ascending, each as sum = fl(fl(sum*2^(m_old - m)) + chunk's), outputs alike.
// Parts ascending, both scaled to the larger m before they are added. At last fl(output/sum).
#pragma once
#include "attention.inl.h"
#include "batch_shape.h"
#include "round_bf16.inl.h"

namespace stet::cpu {
namespace {

constexpr int maxSharing = 4;  // queries that share their loads
// Below every score, which are of +-2^30.
constexpr int32_t noScore = INT32_MIN;
constexpr int32_t leastPower = -60;

// Scores and results of one query: of the current part, whose outputs stand in its Query, and of the parts before.
struct PartState {
  int32_t largest;
  float sum;
  float oldFactor;  // of what came before the current chunk
  int32_t totalLargest;
  float totalSum;
  alignas(64) float weights[chunkPositions];  // of the current chunk
  alignas(64) float scaled[chunkPositions];   // the same, times the units of a block of values
  alignas(64) float total[maxPaddedHead];
};

struct SharingQueries {
  Query queries[maxSharing];
  PartState states[maxSharing];
};

inline size_t batchShapedScratchBytes() { return sizeof(SharingQueries); }

// 2^(difference/65536) of differences up to 0; 0 below 2^leastPower.
template <class S> typename S::F powers(typename S::I difference) {
  const auto integer = S::template sar<16>(difference);
  const auto fraction = S::toFloat(exp2q<S>(S::andI(difference, S::splatI(0xffff))));
  const auto power = S::mul(fraction, pow2Lanes<S>(S::subI(S::maxI(integer, S::splatI(leastPower)), S::splatI(15))));
  return S::select(S::lessI(integer, S::splatI(leastPower)), S::zero(), power);
}

inline float powerOf(int32_t largest, int32_t larger) { return largest == noScore ? 0.0f : powers<ScalarLanes>(largest - larger); }

inline float sumOfWeights(const float* weights) {
  constexpr int lanes = 16;
  float sums[lanes];
  for (int i = 0; i < lanes; i++) sums[i] = weights[i];
  for (int first = lanes; first < chunkPositions; first += lanes) {
    for (int i = 0; i < lanes; i++) sums[i] += weights[first + i];
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  }
  return sums[0];
}

// Weights of a chunk of which the query attends to some position.
template <class S> void weighChunk(const Chunk& chunk, const Query& query, PartState& state) {
  const int begin = query.first > chunk.first ? query.first - chunk.first : 0;
  const int end = query.end - chunk.first < chunkPositions ? query.end - chunk.first : chunkPositions;
  const auto attended = [&](int i, typename S::I inside, typename S::I outside) {
    const auto index = S::addI(S::laneIndex(), S::splatI(i));
    const auto below = S::selectI(S::lessI(index, S::splatI(end)), inside, outside);
    return S::selectI(S::lessI(index, S::splatI(begin)), outside, below);
  };
  auto largest = S::splatI(state.largest);
  for (int i = 0; i < chunkPositions; i += S::width) {
    largest = S::maxI(largest, attended(i, S::loadI(query.fixed + i), S::splatI(noScore)));
  }
  const int32_t newLargest = S::maxAll(largest);
  alignas(64) float exact[chunkPositions];
  for (int i = 0; i < chunkPositions; i += S::width) {
    const auto power = powers<S>(S::subI(S::loadI(query.fixed + i), S::splatI(newLargest)));
    const auto weight = S::fromBits(attended(i, S::bits(power), S::splatI(0)));
    S::store(exact + i, weight);
    S::store(state.weights + i, toBf16<S>(weight));
  }
  state.oldFactor = powerOf(state.largest, newLargest);
  state.largest = newLargest;
  const float before = state.sum * state.oldFactor;
  state.sum = before + sumOfWeights(exact);
}

// Byte i of each lane, with its sign.
template <class S, int i> typename S::I signedByte(typename S::I bytes) {
  if constexpr (i == 3) return S::template sar<24>(bytes);
  else return S::template sar<24>(S::template shl<24 - 8 * i>(bytes));
}

// Position i of a quad: values of `vectors` vectors of dimensions times the weights of each query.
template <class S, int queries, int vectors, int i>
inline __attribute__((always_inline)) void addPosition(const typename S::I (&high)[vectors], const typename S::I (&low)[vectors], unsigned quad,
                                                       const PartState* states, typename S::F (&sums)[queries][vectors]) {
  typename S::F values[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    values[v] = S::toFloat(S::addI(S::template shl<7>(signedByte<S, i>(high[v])), signedByte<S, i>(low[v])));
  }
#pragma GCC unroll 8
  for (int q = 0; q < queries; q++) {
    const auto weight = S::splat(states[q].scaled[quad * 4 + i]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sums[q][v] = S::multiplyAddExact(values[v], weight, sums[q][v]);
  }
}

// Adds a chunk's weighted values of `vectors` vectors of dimensions, from `lane` of block b on, to active queries.
template <class S, int queries, int vectors>
void addValues(const KvLayout& layout, const Chunk& chunk, int b, int lane, const bool* active, SharingQueries& sharing) {
  typename S::F sums[queries][vectors];
  for (int q = 0; q < queries; q++) {
    for (int v = 0; v < vectors; v++) sums[q][v] = S::zero();
  }
  const size_t start = layout.valueStart() + static_cast<size_t>(b) * pairBytes + static_cast<size_t>(lane) * 4;
  for (unsigned quad = chunk.begin / 4; quad * 4 < chunk.end; quad++) {
    const std::byte* values = chunk.groups[quad / 4] + start + quad % 4 * 128;
    typename S::I high[vectors], low[vectors];
    for (int v = 0; v < vectors; v++) {
      high[v] = S::loadI(values + v * S::width * 4);
      low[v] = S::loadI(values + planeBytes + v * S::width * 4);
    }
    addPosition<S, queries, vectors, 0>(high, low, quad, sharing.states, sums);
    addPosition<S, queries, vectors, 1>(high, low, quad, sharing.states, sums);
    addPosition<S, queries, vectors, 2>(high, low, quad, sharing.states, sums);
    addPosition<S, queries, vectors, 3>(high, low, quad, sharing.states, sums);
  }
  for (int q = 0; q < queries; q++) {
    if (!active[q]) continue;
    for (int v = 0; v < vectors; v++) {
      float* result = sharing.queries[q].result + b * blockElements + lane + v * S::width;
      S::store(result, S::add(S::mul(S::load(result), S::splat(sharing.states[q].oldFactor)), sums[q][v]));
    }
  }
}

// Weights times the units of the values' block b: 2^(exponent - 7) of each position.
template <class S> void scaleWeights(const KvLayout& layout, const Chunk& chunk, int b, PartState& state) {
  const size_t offset = layout.valueExponentStart() + static_cast<size_t>(b) * groupPositions;
  for (int i = 0; i < chunkPositions; i += S::width) {
    const auto* exponents = reinterpret_cast<const int8_t*>(chunk.groups[i / groupPositions] + offset + i % groupPositions);
    const auto unit = pow2Lanes<S>(S::subI(S::loadBytes(exponents), S::splatI(7)));
    S::store(state.scaled + i, S::mul(S::load(state.weights + i), unit));
  }
}

template <class S, int queries>
void attendChunkOfPart(const AttentionArgs& args, const KvLayout& layout, const Chunk& chunk, SharingQueries& sharing) {
  for (int t = chunk.firstGroup(); t < chunk.endGroup(); t++) {
    for (int lane = 0; lane < groupPositions; lane += S::width) scoreLanes<S, queries>(layout, chunk, t, lane, args.scale, sharing.queries);
  }
  bool active[queries];
  for (int q = 0; q < queries; q++) {
    active[q] = chunk.serves(sharing.queries[q]);
    if (active[q]) weighChunk<S>(chunk, sharing.queries[q], sharing.states[q]);
    else std::memset(sharing.states[q].weights, 0, sizeof sharing.states[q].weights);
  }
  constexpr int vectors = S::width == 16 ? 2 : 1;
  for (int b = 0; b < layout.blocks; b++) {
    for (int q = 0; q < queries; q++) scaleWeights<S>(layout, chunk, b, sharing.states[q]);
    for (int lane = 0; lane < blockElements; lane += vectors * S::width) {
      addValues<S, queries, vectors>(layout, chunk, b, lane, active, sharing);
    }
  }
}

// Adds the part to those before and begins the next.
template <class S> void joinPart(int padded, Query& query, PartState& state) {
  if (state.largest != noScore) {
    const int32_t larger = state.largest > state.totalLargest ? state.largest : state.totalLargest;
    const float oldFactor = powerOf(state.totalLargest, larger);
    const float newFactor = powerOf(state.largest, larger);
    const float before = state.totalSum * oldFactor;
    const float part = state.sum * newFactor;
    state.totalSum = before + part;
    state.totalLargest = larger;
    for (int i = 0; i < padded; i += S::width) {
      const auto old = S::mul(S::load(state.total + i), S::splat(oldFactor));
      S::store(state.total + i, S::add(old, S::mul(S::load(query.result + i), S::splat(newFactor))));
    }
  }
  state.largest = noScore;
  state.sum = 0.0f;
  std::memset(query.result, 0, sizeof(float) * static_cast<size_t>(padded));
}

template <class S> void finishParts(int headSize, const Query& query, const PartState& state) {
  for (int i = 0; i < headSize; i += S::width) {
    const int rest = headSize - i;
    const auto y = S::divide(S::load(state.total + i), S::splat(state.totalSum));
    S::storeFirst(query.output + i, toBf16<S>(y), rest < S::width ? rest : S::width);
  }
}

// Queries from `firstQuery` on, over the parts of the context of the whole call.
template <class S, int queries> void attendInParts(const AttentionArgs& args, const KvLayout& layout, int firstQuery) {
  auto& sharing = *reinterpret_cast<SharingQueries*>(args.scratch);
  const int padded = layout.blocks * blockElements;
  for (int q = 0; q < queries; q++) {
    prepareQuery<S>(args, layout, firstQuery + q, sharing.queries[q]);
    PartState& state = sharing.states[q];
    state.largest = state.totalLargest = noScore;
    state.sum = state.totalSum = 0.0f;
    std::memset(state.total, 0, sizeof(float) * static_cast<size_t>(padded));
  }
  const int begin = sharing.queries[0].first;
  const int end = sharing.queries[queries - 1].end;
  const int firstChunk = (args.windowSize > 0 && args.windowSize <= args.firstPosition ? args.firstPosition + 1 - args.windowSize : 0) / chunkPositions;
  const int endChunk = ceilDiv(args.firstPosition + args.rowCount, chunkPositions);
  const int partChunks = attentionPartChunks(endChunk - firstChunk, args.batchTasks);
  for (int part = firstChunk; part < endChunk; part += partChunks) {
    for (int c = part; c < part + partChunks && c < endChunk; c++) {
      const int first = c * chunkPositions;
      if (first + chunkPositions <= begin || first >= end) continue;
      attendChunkOfPart<S, queries>(args, layout, chunkAt(args, layout, first, begin, end), sharing);
    }
    for (int q = 0; q < queries; q++) joinPart<S>(padded, sharing.queries[q], sharing.states[q]);
  }
  for (int q = 0; q < queries; q++) finishParts<S>(args.headSize, sharing.queries[q], sharing.states[q]);
}

template <class S> void batchShapedAttention(const AttentionArgs& args) {
  const KvLayout layout(args.headSize);
  const int count = args.rowCount * args.headsPerKv;
  int first = 0;
  for (; first + maxSharing <= count; first += maxSharing) attendInParts<S, maxSharing>(args, layout, first);
  switch (count - first) {
    case 3:
      return attendInParts<S, 3>(args, layout, first);
    case 2:
      return attendInParts<S, 2>(args, layout, first);
    case 1:
      return attendInParts<S, 1>(args, layout, first);
    default:
      return;
  }
}

}  // namespace
}  // namespace stet::cpu
