// round_bf16: row (count) -> the nearest bf16 values, ties to even, in place: how a GPU stores what it computed in f32.
// For the batch-shaped study mode alone.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S> typename S::F toBf16(typename S::F x) {
  const auto u = S::bits(x);
  const auto odd = S::andI(S::template shr<16>(u), S::splatI(1));
  return S::fromBits(S::andI(S::addI(u, S::addI(odd, S::splatI(0x7fff))), S::splatI(~0xffff)));
}

template <class S> void roundBf16(float* row, int32_t count) {
  int32_t i = 0;
  for (; i + S::width <= count; i += S::width) S::store(row + i, toBf16<S>(S::load(row + i)));
  if (i < count) S::storeFirst(row + i, toBf16<S>(S::loadFirst(row + i, count - i)), count - i);
}

}  // namespace
}  // namespace stet::cpu
