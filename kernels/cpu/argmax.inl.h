// argmax: logits (count >= 1) -> the lowest index of the largest, that logit and the largest of the others, -infinity
// where there is none. Comparisons alone, so any order gives the same.
#pragma once
#include <limits>

#include "kernels.h"
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S> Argmax argmax(const float* logits, int32_t count) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Argmax top{0, logits[0], -infinity};
  int32_t i = 1;
  if (count >= S::width) {
    auto largest = S::load(logits);
    auto index = S::laneIndex();
    auto runnerUp = S::splat(-infinity);
    // A lane keeps the first of its equals, for it takes greater values alone; the loser of each comparison may be its
    // second. Largest and runner-up are chains of their own, one operation a step each.
    for (i = S::width; i + S::width <= count; i += S::width) {
      const auto x = S::load(logits + i);
      index = S::selectI(S::less(largest, x), S::addI(S::splatI(i), S::laneIndex()), index);
      runnerUp = S::maximum(S::minimum(x, largest), runnerUp);
      largest = S::maximum(x, largest);
    }
    float values[S::width];
    float seconds[S::width];
    int32_t indices[S::width];
    S::store(values, largest);
    S::store(seconds, runnerUp);
    S::storeI(indices, index);
    for (int half = S::width / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; lane++) {
        const int other = lane + half;
        const float loser = values[other] < values[lane] ? values[other] : values[lane];
        const float second = seconds[other] > seconds[lane] ? seconds[other] : seconds[lane];
        seconds[lane] = loser > second ? loser : second;
        const bool takes = values[other] > values[lane] || (values[other] == values[lane] && indices[other] < indices[lane]);
        values[lane] = takes ? values[other] : values[lane];
        indices[lane] = takes ? indices[other] : indices[lane];
      }
    }
    top = {indices[0], values[0], seconds[0]};
  }
  for (; i < count; i++) {
    if (logits[i] > top.logit) {
      top = {i, logits[i], top.logit};
    } else if (logits[i] > top.runnerUpLogit) {
      top.runnerUpLogit = logits[i];
    }
  }
  return top;
}

}  // namespace
}  // namespace stet::cpu
