// swiglu: gate (count), up (count) -> output (count) = silu(gate)*up; output may be either input.
// Element by element, no reduction. canonical: integer exp and division. fast: a polynomial of degree 5 for exp2
// (relative error 3e-6) and a float division.
#pragma once
#include "kernels.h"
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

template <class S> typename S::F swigluFastLanes(typename S::F gate, typename S::F up) {
  const auto limit = S::splat(126.0f);
  const auto t = S::maximum(S::minimum(S::mul(gate, S::splat(-1.44269504f)), limit), S::sub(S::zero(), limit));
  const auto integer = S::toIntNearest(t);
  const auto fraction = S::sub(t, S::toFloat(integer));
  auto power = S::splat(1.33335581e-3f);
  constexpr float coefficients[] = {9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.0f};
  for (const float coefficient : coefficients) {
    power = S::multiplyAdd(power, fraction, S::splat(coefficient));
  }
  return S::divide(S::mul(gate, up), S::multiplyAdd(power, pow2Lanes<S>(integer), S::splat(1.0f)));
}

template <class S, Schedule schedule> typename S::F swigluOf(typename S::F gate, typename S::F up) {
  return schedule == Schedule::canonical ? swigluLanes<S>(gate, up) : swigluFastLanes<S>(gate, up);
}

template <class S, Schedule schedule> void swiglu(const float* gate, const float* up, int32_t count, float* output) {
  int i = 0;
  for (; i + S::width <= count; i += S::width) {
    S::store(output + i, swigluOf<S, schedule>(S::load(gate + i), S::load(up + i)));
  }
  if (const int rest = count - i; rest > 0) {
    S::storeFirst(output + i, swigluOf<S, schedule>(S::loadFirst(gate + i, rest), S::loadFirst(up + i, rest)), rest);
  }
}

}  // namespace
}  // namespace stet::cpu
