// What attention keeps for one query and one chunk of 64 positions, and the step between scores and values: integer
// weights of the chunk's positions. Both ways to multiply (attention.inl.h, attention_tiles.inl.h) share it.
#pragma once
#include <cstring>

#include "kernels.h"
#include "kv_layout.inl.h"
#include "q15.inl.h"

namespace stet::cpu {
namespace {

constexpr int maxHeadBlocks = maxPaddedHead / blockElements;
constexpr int groupsPerChunk = chunkPositions / groupPositions;
// Exponent of a position that is not attended to: so far below all others, -16424 and up, that its weight is 0.
constexpr int32_t masked = -32768;
// M before the first chunk: so far below that of any chunk that what came before, zeros, stays zeros.
constexpr int32_t nothing = -(1 << 20);

// One query and its running result.
struct Query {
  float* output;
  int first;                           // attends to first..end-1
  int end;
  float sum;                           // l
  int32_t exponent;                    // M
  int32_t chunkExponent;               // M_c
  float oldFactor, newFactor;          // of what came before and of the current chunk
  float blockFactor[maxHeadBlocks];    // 2^(B - M_c) of each block of values
  float scale[maxHeadBlocks];          // 2^exponent of each block of the query
  float lowScale[maxHeadBlocks];       // the same times 2^-7
  int32_t highBias[maxHeadBlocks];     // where sums with high keys start, for keys that carry a bias
  int32_t lowBias[maxHeadBlocks];
  alignas(64) int8_t high[maxPaddedHead];
  alignas(64) int8_t low[maxPaddedHead];
  alignas(64) int32_t fixed[chunkPositions];      // base-2 scores, 16 bits of fraction
  alignas(64) uint8_t weightHigh[chunkPositions]; // P >> 7 of the current block of values
  alignas(64) uint8_t weightLow[chunkPositions];  // P & 127
  alignas(64) float result[maxPaddedHead];
};

// A chunk. Of its positions some query attends to begin..end-1; groups without any of these are not looked at.
struct Chunk {
  const std::byte* groups[groupsPerChunk + 1];    // those outside of firstGroup()..endGroup()-1 repeat one of them
  int first;                                      // absolute position
  unsigned begin, end;                            // in 0..chunkPositions

  int firstGroup() const { return static_cast<int>(begin / groupPositions); }
  int endGroup() const { return static_cast<int>((end + groupPositions - 1) / groupPositions); }
  bool serves(const Query& query) const { return query.first < first + chunkPositions && query.end > first; }
};

template <class S> void prepareQuery(const AttentionArgs& args, const KvLayout& layout, int index, Query& query) {
  const int row = index / args.headsPerKv;
  const int64_t head = static_cast<int64_t>(index % args.headsPerKv) * args.headSize;
  const float* input = args.query + row * args.queryStride + head;
  query.output = args.output + row * args.outputStride + head;
  query.end = args.firstPosition + row + 1;
  query.first = args.windowSize > 0 && args.windowSize < query.end ? query.end - args.windowSize : 0;
  query.sum = 0.0f;
  query.exponent = nothing;
  query.chunkExponent = 0;
  std::memset(query.result, 0, sizeof(float) * static_cast<size_t>(layout.blocks) * blockElements);
  for (int b = 0; b < layout.blocks; b++) {
    const int first = b * blockElements;
    const int count = args.headSize - first < blockElements ? args.headSize - first : blockElements;
    PlaneSums sums;
    const int exponent = quantizeToPlanes<S>(input + first, count, query.high + first, query.low + first, sums);
    query.scale[b] = pow2(exponent);
    query.lowScale[b] = pow2(exponent - 7);
    query.highBias[b] = -S::operandBias * sums.high;
    query.lowBias[b] = -S::operandBias * sums.low;
  }
}

// The chunk that begins at `first`, for queries that attend to some of begin..end-1.
inline Chunk chunkAt(const AttentionArgs& args, const KvLayout& layout, int first, int begin, int end) {
  Chunk chunk;
  chunk.first = first;
  chunk.begin = static_cast<unsigned>(begin > first ? begin - first : 0);
  chunk.end = static_cast<unsigned>(end - first < chunkPositions ? end - first : chunkPositions);
  const int firstGroup = chunk.firstGroup();
  const int endGroup = chunk.endGroup();
  for (int t = firstGroup; t < endGroup; t++) {
    const int position = first + t * groupPositions;
    chunk.groups[t] = args.kv + args.blocks[position / args.blockSize] * args.blockStride +
                      layout.groupBytes() * static_cast<size_t>(position % args.blockSize / groupPositions);
  }
  for (int t = 0; t < firstGroup; t++) chunk.groups[t] = chunk.groups[firstGroup];
  for (int t = endGroup; t <= groupsPerChunk; t++) chunk.groups[t] = chunk.groups[endGroup - 1];
  return chunk;
}

// T of scores: scaled, clamped, truncated.
template <class S> typename S::I fixScores(typename S::F scores, float scale) {
  const auto x = S::mul(scores, S::splat(scale));
  return S::toIntTruncate(S::maximum(S::minimum(x, S::splat(1073741824.0f)), S::splat(-1073741824.0f)));
}

// Of a chunk's positions: integer part n and 14-bit exp2 e of the fraction of each score.
template <class S> struct ChunkWeights {
  static constexpr int steps = chunkPositions / S::halfWidth;
  typename S::H n[steps];
  typename S::H e[steps];
};

template <class S> ChunkWeights<S> splitScores(const Chunk& chunk, const Query& query) {
  ChunkWeights<S> weights;
  for (int i = 0; i < ChunkWeights<S>::steps; i++) {
    const int first = i * S::halfWidth;
    weights.n[i] = S::firstH(S::highHalves(query.fixed + first), query.end - chunk.first - first, S::splatH(masked));
    weights.e[i] = S::template shrH<2>(exp2qHalves<S>(S::lowHalves(query.fixed + first)));
  }
  if (query.first > chunk.first) {
    for (int i = 0; i < ChunkWeights<S>::steps; i++) {
      weights.n[i] = S::firstH(S::splatH(masked), query.first - chunk.first - i * S::halfWidth, weights.n[i]);
    }
  }
  return weights;
}

// M_c and l_c, and how the chunk joins what came before.
template <class S> void joinChunk(const ChunkWeights<S>& weights, Query& query) {
  constexpr int steps = ChunkWeights<S>::steps;
  auto largest = weights.n[0];
  for (int i = 1; i < steps; i++) largest = S::maxH(largest, weights.n[i]);
  const int32_t chunkExponent = S::maxAllH(largest);
  auto sum = S::splatI(0);
  for (int i = 0; i < steps; i++) {
    sum = S::addI(sum, S::pairSumsH(S::roundingShiftH(weights.e[i], S::subH(S::splatH(chunkExponent), weights.n[i]))));
  }
  const int32_t exponent = chunkExponent > query.exponent ? chunkExponent : query.exponent;
  query.oldFactor = scaleFactor(exponent - query.exponent);
  query.newFactor = scaleFactor(exponent - chunkExponent);
  query.chunkExponent = chunkExponent;
  query.exponent = exponent;
  const float chunkSum = scaleDown<ScalarLanes>(static_cast<float>(S::sumAll(sum)), query.newFactor);
  query.sum = scaleDown<ScalarLanes>(query.sum, query.oldFactor) + chunkSum;
}

// P of a block of values, in two parts of 7 bits.
template <class S> void weighBlock(const KvLayout& layout, const Chunk& chunk, int b, const ChunkWeights<S>& weights, Query& query) {
  constexpr int steps = ChunkWeights<S>::steps;
  const size_t offset = layout.valueExponentStart() + static_cast<size_t>(b) * groupPositions;
  typename S::H exponents[steps];
  for (int i = 0; i < steps; i++) {
    const int j = i * S::halfWidth;
    const auto at = [&](int t) { return reinterpret_cast<const int8_t*>(chunk.groups[t] + offset + j % groupPositions); };
    exponents[i] = S::addSaturateH(weights.n[i], S::loadBytesH(at(j / groupPositions), at(j / groupPositions + 1)));
  }
  auto largest = exponents[0];
  for (int i = 1; i < steps; i++) largest = S::maxH(largest, exponents[i]);
  const int32_t top = S::maxAllH(largest);
  for (int i = 0; i < steps; i++) {
    const auto p = S::roundingShiftH(weights.e[i], S::subH(S::splatH(top), exponents[i]));
    S::storeBytesH(query.weightHigh + i * S::halfWidth, S::template shrH<7>(p));
    S::storeBytesH(query.weightLow + i * S::halfWidth, S::andH(p, S::splatH(127)));
  }
  query.blockFactor[b] = pow2(top - query.chunkExponent);
}

// Joins a chunk's sums of `width` dimensions, from `index` on, to the result: o = old + new. The first chunk stays as it is,
// since adding it to zeros rounds nothing.
template <class S> void joinValues(int b, int index, typename S::I sum, Query& query) {
  const auto part = scaleDown<S>(S::mul(S::toFloat(sum), S::splat(query.blockFactor[b])), S::splat(query.newFactor));
  float* result = query.result + index;
  S::store(result, S::add(scaleDown<S>(S::load(result), S::splat(query.oldFactor)), part));
}

template <class S> void finishQuery(int headSize, const Query& query) {
  const auto inverse = S::splat(recip(query.sum));
  for (int i = 0; i < headSize; i += S::width) {
    const int rest = headSize - i;
    S::storeFirst(query.output + i, S::mul(S::load(query.result + i), inverse), rest < S::width ? rest : S::width);
  }
}

}  // namespace
}  // namespace stet::cpu
