// argmax: logits (count >= 1) -> the lowest index of the largest. Comparisons alone, so any order gives the same.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S> int32_t argmax(const float* logits, int32_t count) {
  auto best = S::splat(logits[0]);
  auto bestIndex = S::splatI(0);
  int i = 0;
  // A lane keeps the first of its equals, for it takes greater values alone.
  for (; i + S::width <= count; i += S::width) {
    const auto x = S::load(logits + i);
    const auto greater = S::less(best, x);
    best = S::select(greater, x, best);
    bestIndex = S::selectI(greater, S::addI(S::splatI(i), S::laneIndex()), bestIndex);
  }
  float values[S::width];
  int32_t indices[S::width];
  S::store(values, best);
  S::storeI(indices, bestIndex);
  float largest = values[0];
  int32_t index = indices[0];
  for (int lane = 1; lane < S::width; lane++) {
    if (values[lane] > largest || (values[lane] == largest && indices[lane] < index)) {
      largest = values[lane];
      index = indices[lane];
    }
  }
  for (; i < count; i++) {
    if (logits[i] > largest) {
      largest = logits[i];
      index = i;
    }
  }
  return index;
}

}  // namespace
}  // namespace stet::cpu
