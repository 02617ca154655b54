// swiglu: gate (count), up (count) -> output (count) = silu(gate)*up; output may be either input.
// Element by element, no reduction. canonical: the integers of docs/NUMERICS.md, their quotient by exact steps in floats.
// fast: a polynomial of degree 5 for exp2 (relative error 3e-6) and a float division.
#pragma once
#include "kernels.h"
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

constexpr int swigluVectors = 4;  // that go in lockstep

template <class S>
inline __attribute__((always_inline)) void swigluVectorsOf(const typename S::F (&gate)[swigluVectors], const typename S::F (&up)[swigluVectors],
                                                           typename S::F (&output)[swigluVectors]) {
  constexpr int n = swigluVectors;
  using F = typename S::F;
  typename S::I t[n], p[n], exponent[n], divisor[n];
  F inverse[n], lowered[n];
  for (int i = 0; i < n; i++) {
    const F minusMagnitude = S::fromBits(S::orI(S::bits(gate[i]), S::splatI(INT32_MIN)));
    t[i] = S::toIntTruncate(S::maximum(S::mul(minusMagnitude, S::splat(94548.4609375f)), S::splat(-4194304.0f)));
  }
  exp2qPair<S>(t[0], t[1], p[0], p[1]);
  exp2qPair<S>(t[2], t[3], p[2], p[3]);
  for (int i = 0; i < n; i++) {
    exponent[i] = S::template sar<16>(t[i]);  // -sh
    divisor[i] = S::addI(S::splatI(32768), S::shrBy(p[i], S::subI(S::splatI(0), exponent[i])));
  }
  reciprocals<S>(divisor, inverse);
  // (p*inverse) >> 8 lies in 2^22..2^24, so its exponent can be lowered by sh, at most 64, in its bits.
  for (int i = 0; i < n; i++) {
    const F product = S::toFloat(S::template shr<8>(S::mulI(p[i], S::toIntTruncate(inverse[i]))));
    lowered[i] = S::mul(S::fromBits(S::addI(S::bits(product), S::template shl<23>(exponent[i]))), S::splat(0x1p-7f));
  }
  for (int i = 0; i < n; i++) {
    const F sigmoid = S::mul(S::select(S::less(gate[i], S::zero()), lowered[i], inverse[i]), S::splat(0x1p-16f));
    output[i] = S::mul(b1<S>(S::mul(gate[i], sigmoid)), up[i]);
  }
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

template <class S>
inline __attribute__((always_inline)) void swigluFastVectorsOf(const typename S::F (&gate)[swigluVectors],
                                                               const typename S::F (&up)[swigluVectors], typename S::F (&output)[swigluVectors]) {
  for (int i = 0; i < swigluVectors; i++) output[i] = swigluFastLanes<S>(gate[i], up[i]);
}

template <class S, Schedule schedule> void swiglu(const float* gate, const float* up, int32_t count, float* output) {
  constexpr int width = S::width;
  constexpr auto run = schedule == Schedule::canonical ? swigluVectorsOf<S> : swigluFastVectorsOf<S>;
  for (int i = 0; i < count; i += swigluVectors * width) {
    typename S::F g[swigluVectors], u[swigluVectors], y[swigluVectors];
    const int rest = count - i;
    if (rest >= swigluVectors * width) {
      for (int v = 0; v < swigluVectors; v++) g[v] = S::load(gate + i + v * width), u[v] = S::load(up + i + v * width);
      run(g, u, y);
      for (int v = 0; v < swigluVectors; v++) S::store(output + i + v * width, y[v]);
      continue;
    }
    const auto lanes = [&](int v) { return rest < v * width ? 0 : rest < (v + 1) * width ? rest - v * width : width; };
    for (int v = 0; v < swigluVectors; v++) {
      g[v] = S::loadFirst(gate + i + v * width, lanes(v));
      u[v] = S::loadFirst(up + i + v * width, lanes(v));
    }
    run(g, u, y);
    for (int v = 0; v < swigluVectors; v++) S::storeFirst(output + i + v * width, y[v], lanes(v));
  }
}

}  // namespace
}  // namespace stet::cpu
