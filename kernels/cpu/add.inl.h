// add: left (count), right (count) -> output (count) = fl(left + right); output may be either input. Both schedules.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S> void add(const float* left, const float* right, int32_t count, float* output) {
  int i = 0;
  for (; i + S::width <= count; i += S::width) S::store(output + i, S::add(S::load(left + i), S::load(right + i)));
  if (const int rest = count - i; rest > 0) {
    S::storeFirst(output + i, S::add(S::loadFirst(left + i, rest), S::loadFirst(right + i, rest)), rest);
  }
}

}  // namespace
}  // namespace stet::cpu
