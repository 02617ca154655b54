// rope: rotates (headCount, headSize) in place, element i of the first half with element i of the second.
// cosine and sine (headSize/2) have 12 significant bits, so every product is exact; no reduction. Both schedules.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S>
void ropePairs(typename S::F a, typename S::F b, typename S::F c, typename S::F s, typename S::F& first, typename S::F& second) {
  typename S::F ah, al, bh, bl;
  split<S>(a, ah, al);
  split<S>(b, bh, bl);
  const auto high0 = S::sub(S::mul(ah, c), S::mul(bh, s));
  const auto low0 = S::sub(S::mul(al, c), S::mul(bl, s));
  const auto high1 = S::multiplyAddExact(ah, s, S::mul(bh, c));
  const auto low1 = S::multiplyAddExact(al, s, S::mul(bl, c));
  first = S::add(b1<S>(high0), b1<S>(low0));
  second = S::add(b1<S>(high1), b1<S>(low1));
}

template <class S> void rope(float* row, int32_t headCount, int32_t headSize, const float* cosine, const float* sine) {
  const int half = headSize / 2;
  for (int head = 0; head < headCount; head++, row += headSize) {
    int i = 0;
    typename S::F first, second;
    for (; i + S::width <= half; i += S::width) {
      ropePairs<S>(S::load(row + i), S::load(row + half + i), S::load(cosine + i), S::load(sine + i), first, second);
      S::store(row + i, first);
      S::store(row + half + i, second);
    }
    if (const int rest = half - i; rest > 0) {
      ropePairs<S>(S::loadFirst(row + i, rest), S::loadFirst(row + half + i, rest), S::loadFirst(cosine + i, rest),
                   S::loadFirst(sine + i, rest), first, second);
      S::storeFirst(row + i, first, rest);
      S::storeFirst(row + half + i, second, rest);
    }
  }
}

}  // namespace
}  // namespace stet::cpu
