// swiglu: gate (count), up (count) -> output (count) = silu(gate)*up; output may be either input.
// Element by element, integer exp and division, no reduction. Both schedules: the integers cost less than a float exp
// and division of the same accuracy would.
#pragma once
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

template <class S> typename S::F swigluLanes(typename S::F gate, typename S::F up) {
  using I = typename S::I;
  const auto scaled = S::mul(S::fromBits(magnitude<S>(gate)), S::splat(94548.4609375f));
  const I t = S::subI(S::splatI(0), S::toIntTruncate(S::minimum(scaled, S::splat(4194304.0f))));
  const I shift = S::subI(S::splatI(0), S::template sar<16>(t));
  const I p = exp2q<S>(S::andI(t, S::splatI(0xffff)));
  const I inverse = reciprocal<S>(S::addI(S::splatI(32768), S::shrBy(p, shift)));
  const auto negative =
      S::mul(S::toFloat(S::template shr<8>(S::mulI(p, inverse))), pow2Lanes<S>(S::subI(S::splatI(-23), shift)));
  const auto positive = S::mul(S::toFloat(inverse), S::splat(1.0f / 65536));
  const auto sigmoid = S::select(S::less(gate, S::zero()), negative, positive);
  return S::mul(b1<S>(S::mul(gate, sigmoid)), up);
}

template <class S> void swiglu(const float* gate, const float* up, int32_t count, float* output) {
  int i = 0;
  for (; i + S::width <= count; i += S::width) S::store(output + i, swigluLanes<S>(S::load(gate + i), S::load(up + i)));
  if (const int rest = count - i; rest > 0) {
    S::storeFirst(output + i, swigluLanes<S>(S::loadFirst(gate + i, rest), S::loadFirst(up + i, rest)), rest);
  }
}

}  // namespace
}  // namespace stet::cpu
