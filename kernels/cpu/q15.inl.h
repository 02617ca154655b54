// Q15: a block of 32 values as two int8 planes and one exponent, value = (128*high + low) * 2^(exponent - 7).
// Used for the activations of `q8` linears, for queries and for K/V.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

inline int blockExponent(int32_t largestMagnitude) {
  const int e = ((largestMagnitude + 0x1ffff) >> 23) - 133;
  return e < -40 ? -40 : e > 20 ? 20 : e;
}

// One block of `count` <= 32 values, the rest zero: calls emit(lane group, high, low) for each group of `width` lanes
// and returns the exponent.
template <class S, class Emit> int quantizeBlock(const float* x, int count, Emit emit) {
  constexpr int groups = blockElements / S::width;
  typename S::F values[groups];
  auto largest = S::splatI(0);
  for (int g = 0; g < groups; g++) {
    const int rest = count - g * S::width;
    values[g] = rest >= S::width ? S::load(x + g * S::width) : rest > 0 ? S::loadFirst(x + g * S::width, rest) : S::zero();
    largest = S::maxI(largest, magnitude<S>(values[g]));
  }
  const int exponent = blockExponent(S::maxAll(largest));
  const auto factor = S::splat(pow2(7 - exponent));
  for (int g = 0; g < groups; g++) {
    const auto scaled = S::minimum(S::maximum(S::mul(values[g], factor), S::splat(-16256.0f)), S::splat(16256.0f));
    const auto q = S::toIntNearest(scaled);
    const auto high = S::template sar<7>(S::addI(q, S::splatI(64)));
    emit(g, high, S::subI(q, S::template shl<7>(high)));
  }
  return exponent;
}

// Sums of a block's planes, for operands that carry a bias.
struct PlaneSums {
  int32_t high;
  int32_t low;
};

// Writes 32 bytes to each plane.
template <class S> int quantizeToPlanes(const float* x, int count, int8_t* high, int8_t* low, PlaneSums& sums) {
  auto highs = S::splatI(0);
  auto lows = S::splatI(0);
  const int exponent = quantizeBlock<S>(x, count, [&](int g, typename S::I h, typename S::I l) {
    S::storeBytes(high + g * S::width, h);
    S::storeBytes(low + g * S::width, l);
    highs = S::addI(highs, h);
    lows = S::addI(lows, l);
  });
  sums = {S::sumAll(highs), S::sumAll(lows)};
  return exponent;
}

}  // namespace
}  // namespace stet::cpu
