// rmsNorm: input (groupCount, width), weight (width) -> output (groupCount, width); output may be input.
// Accumulates r12(x)^2, exact products, in f32. Order of a group, both schedules: 128 lanes over i mod 128, ascending,
// then folds +64, +32, ... +1. One order costs nothing here, so `fast` is the same code.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S>
void normGroup(const float* input, const float* weight, int32_t width, float scaledEpsilon, float rootWidth, float* output) {
  constexpr int groups = normLanes / S::width;
  typename S::F sums[groups];
  for (int g = 0; g < groups; g++) sums[g] = S::zero();
  int i = 0;
  for (; i + normLanes <= width; i += normLanes) {
    for (int g = 0; g < groups; g++) {
      const auto x = r12<S>(S::load(input + i + g * S::width));
      sums[g] = S::multiplyAddExact(x, x, sums[g]);
    }
  }
  for (int g = 0; i < width; g++, i += S::width) {
    const int rest = width - i;
    const auto x = r12<S>(S::loadFirst(input + i, rest < S::width ? rest : S::width));
    sums[g] = S::multiplyAddExact(x, x, sums[g]);
  }
  for (int half = groups / 2; half; half /= 2) {
    for (int g = 0; g < half; g++) sums[g] = S::add(sums[g], sums[g + half]);
  }
  const float total = S::sumPairs(sums[0]);
  const auto inverse = S::splat(r16<ScalarLanes>(rsqrt(total + scaledEpsilon) * rootWidth));
  for (i = 0; i + S::width <= width; i += S::width) {
    S::store(output + i, S::mul(b1<S>(S::mul(S::load(input + i), inverse)), S::load(weight + i)));
  }
  if (i < width) {
    const int rest = width - i;
    const auto y = S::mul(b1<S>(S::mul(S::loadFirst(input + i, rest), inverse)), S::loadFirst(weight + i, rest));
    S::storeFirst(output + i, y, rest);
  }
}

template <class S>
void rmsNorm(const float* input, const float* weight, int32_t width, int32_t groupCount, float scaledEpsilon, float rootWidth,
             float* output) {
  for (int32_t group = 0; group < groupCount; group++, input += width, output += width) {
    normGroup<S>(input, weight, width, scaledEpsilon, rootWidth, output);
  }
}

}  // namespace
}  // namespace stet::cpu
