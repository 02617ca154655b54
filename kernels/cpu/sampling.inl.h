// The vector parts of sampling.h over a set of lanes. `L` has `width` lanes of f32 and u32 (F, U) and `width64` lanes of
// f64 (D), one lane each for plain C++. Only operations that are rounded once, in the order of docs/SAMPLING.md, make
// what is exact; estimates and bounds are free.
#pragma once
#include <cstdint>
#include <limits>

#include "sampling.h"

namespace stet::cpu {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

// The last, incomplete block of a row, filled up with values that are never chosen.
template <int size> struct PaddedBlock {
  alignas(64) float values[size];
  PaddedBlock(const float* from, int32_t count) {
    for (int32_t i = 0; i < size; i++) values[i] = i < count ? from[i] : kNoLogit;
  }
};

template <class L> float largestOf(const float* values, int32_t count) {
  auto a = L::splat(kNoLogit), b = a, c = a, d = a;
  int32_t i = 0;
  for (; i + 4 * L::width <= count; i += 4 * L::width) {
    a = L::maximum(a, L::load(values + i));
    b = L::maximum(b, L::load(values + i + L::width));
    c = L::maximum(c, L::load(values + i + 2 * L::width));
    d = L::maximum(d, L::load(values + i + 3 * L::width));
  }
  alignas(64) float lanes[L::width];
  L::store(lanes, L::maximum(L::maximum(a, b), L::maximum(c, d)));
  float largest = kNoLogit;
  for (int lane = 0; lane < L::width; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
  for (; i < count; i++) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

template <class L> int32_t collectFrom(const float* values, int32_t count, float least, int32_t* indices) {
  const auto limit = L::splat(least);
  int32_t found = 0;
  int32_t i = 0;
  for (; i + L::width <= count; i += L::width) {
    uint32_t mask = L::notLess(L::load(values + i), limit);
    for (; mask != 0; mask &= mask - 1) indices[found++] = i + __builtin_ctz(mask);
  }
  for (; i < count; i++) {
    if (!(values[i] < least)) indices[found++] = i;
  }
  return found;
}

// exp(x) of docs/SAMPLING.md for x <= 0; each operation is rounded once.
template <class L> typename L::D exactExp(typename L::D x) {
  const auto k = L::floorD(L::addD(L::divideD(x, L::splatD(0.6931471805599453)), L::splatD(0.5)));
  const auto high = L::mulD(k, L::splatD(0.6931471803691238));
  const auto low = L::mulD(k, L::splatD(1.9082149292705877e-10));
  const auto r = L::subD(L::subD(x, high), low);
  static constexpr double reciprocals[] = {1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                           1.0 / 362880,      1.0 / 40320,      1.0 / 5040,      1.0 / 720,      1.0 / 120,
                                           1.0 / 24,          1.0 / 6,          1.0 / 2,         1.0,            1.0};
  auto sum = L::splatD(reciprocals[0]);
  for (int n = 1; n < 15; n++) sum = L::addD(L::mulD(sum, r), L::splatD(reciprocals[n]));
  return L::zeroWhereLess(x, -708.0, L::scale(sum, k));
}

template <class L, class T> double sumOfExps(const T* values, int32_t count, double largest) {
  const auto top = L::splatD(largest);
  alignas(64) double lanes[L::width64];
  double sum = 0;
  int32_t i = 0;
  for (; i + L::width64 <= count; i += L::width64) {
    L::storeD(lanes, exactExp<L>(L::subD(L::loadD(values + i), top)));
    for (int lane = 0; lane < L::width64; lane++) sum += lanes[lane];
  }
  if (i == count) return sum;
  T rest[L::width64];
  for (int lane = 0; lane < L::width64; lane++) rest[lane] = i + lane < count ? values[i + lane] : static_cast<T>(largest);
  L::storeD(lanes, exactExp<L>(L::subD(L::loadD(rest), top)));
  for (int lane = 0; i + lane < count; lane++) sum += lanes[lane];
  return sum;
}

template <class L> struct EstimateSums {
  typename L::D total = L::splatD(0);
  typename L::D within[estimateDepthCount] = {L::splatD(0), L::splatD(0), L::splatD(0), L::splatD(0)};

  void add(typename L::D value, typename L::D largest, typename L::D inverse) {
    const auto d = L::mulD(L::subD(largest, value), inverse);
    // exp(-d) = 2^k exp(r), |r| <= ln 2 / 2, exp(r) to the 7th power of r.
    const auto k = L::nearestD(L::mulD(d, L::splatD(-1.4426950408889634)));
    const auto r = L::subD(L::subD(L::splatD(0), d), L::mulD(k, L::splatD(0.6931471805599453)));
    auto e = L::splatD(1.0 / 5040);
    static constexpr double reciprocals[] = {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    for (const double reciprocal : reciprocals) e = L::fusedOrNot(e, r, L::splatD(reciprocal));
    e = L::zeroUnlessLess(d, 64.0, L::scale(e, k));
    total = L::addD(total, e);
    for (int i = 0; i < estimateDepthCount; i++) within[i] = L::addD(within[i], L::zeroUnlessLess(d, estimateDepths[i], e));
  }
};

template <class L> double sumOfLanes(typename L::D lanes) {
  alignas(64) double values[L::width64];
  L::storeD(values, lanes);
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

template <class L> MassEstimate estimateOf(const float* values, int32_t count, double largest, double inverse) {
  EstimateSums<L> sums;
  const auto top = L::splatD(largest);
  const auto factor = L::splatD(inverse);
  int32_t i = 0;
  for (; i + L::width64 <= count; i += L::width64) sums.add(L::loadD(values + i), top, factor);
  if (i < count) sums.add(L::loadD(PaddedBlock<L::width64>(values + i, count - i).values), top, factor);
  MassEstimate estimate{sumOfLanes<L>(sums.total), {}};
  for (int d = 0; d < estimateDepthCount; d++) estimate.within[d] = sumOfLanes<L>(sums.within[d]);
  return estimate;
}

// At least the Gumbel noise of the words: -ln(1 - u) is no less, and of y = floor((2^32 - 1 - word) / 256) the bits as
// an f32 are a chord of its logarithm.
template <class L> typename L::F noiseBound(typename L::U words) {
  const auto bits = L::toFloat(L::bitsOf(L::toFloat(L::shiftRight8(L::invert(words)))));
  return L::sub(L::splat(104.66523f), L::mul(bits, L::splat(8.262958e-8f)));
}

// Philox4x32-10 of `width` blocks, so that words[i] are those of tokens i*width .. of the 4*width tokens from `token` on.
template <class L> void philoxBlocks(const GumbelScan& scan, int32_t token, typename L::U words[4]) {
  auto c0 = L::splatU(scan.outputIndex);
  auto c1 = L::splatU(0);
  auto c2 = L::addU(L::splatU(static_cast<uint32_t>(token) / 4), L::blockOrder());
  auto c3 = c1;
  uint32_t key0 = scan.key0;
  uint32_t key1 = scan.key1;
  for (int round = 0; round < 10; round++) {
    typename L::U high0, low0, high1, low1;
    L::multiply(c0, 0xd2511f53u, high0, low0);
    L::multiply(c2, 0xcd9e8d57u, high1, low1);
    c0 = L::xorU(L::xorU(high1, c1), L::splatU(key0));
    c1 = low1;
    c2 = L::xorU(L::xorU(high0, c3), L::splatU(key1));
    c3 = low0;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
  L::transpose(words);
}

// Hits among 4*width tokens, as bits; their words are stored.
template <class L>
uint64_t hitsAmong(const GumbelScan& scan, const float* logits, int32_t token, typename L::F least, typename L::F inverse,
                   typename L::F wanted, uint32_t* wordsOut) {
  typename L::F x[4];
  for (int i = 0; i < 4; i++) x[i] = L::load(logits + i * L::width);
  if (L::notLess(L::maximum(L::maximum(x[0], x[1]), L::maximum(x[2], x[3])), least) == 0) return 0;
  typename L::U words[4];
  philoxBlocks<L>(scan, token, words);
  uint64_t mask = 0;
  for (int i = 0; i < 4; i++) {
    const auto score = L::add(L::mul(x[i], inverse), noiseBound<L>(words[i]));
    mask |= static_cast<uint64_t>(L::notLess(score, wanted) & L::notLess(x[i], least)) << (i * L::width);
  }
  if (mask == 0) return 0;
  for (int i = 0; i < 4; i++) L::storeU(wordsOut + i * L::width, words[i]);
  return mask;
}

template <class L> bool nextHitsIn(const GumbelScan& scan, int32_t token, GumbelHits& hits) {
  constexpr int32_t block = 4 * L::width;
  static_assert(maxScanTokens % block == 0);
  const auto least = L::splat(scan.least);
  const auto inverse = L::splat(scan.inverse);
  const auto wanted = L::splat(scan.wanted);
  for (; token < scan.vocabSize; token += block) {
    const float* logits = scan.logits + token;
    const int32_t left = scan.vocabSize - token;
    hits.mask = left >= block ? hitsAmong<L>(scan, logits, token, least, inverse, wanted, hits.words)
                              : hitsAmong<L>(scan, PaddedBlock<block>(logits, left).values, token, least, inverse, wanted, hits.words);
    // Beyond the end only where nothing is out of reach.
    if (left < block) hits.mask &= (uint64_t{1} << left) - 1;
    if (hits.mask == 0) continue;
    hits.firstToken = token;
    return true;
  }
  return false;
}

template <class L> constexpr SamplingSet makeSamplingSet() {
  return {largestOf<L>, collectFrom<L>, estimateOf<L>, sumOfExps<L, double>, sumOfExps<L, float>, 4 * L::width, nextHitsIn<L>};
}

}  // namespace
}  // namespace stet::cpu
