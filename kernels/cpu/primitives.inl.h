// The primitives of docs/NUMERICS.md over a set of lanes `S`, and the scalar ones that run once a row.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lanes_scalar.h"

namespace stet::cpu {
namespace {

constexpr int blockElements = 32;   // elements of a quantized block
constexpr int normLanes = 128;      // partial sums of rmsNorm
constexpr int chunkPositions = 64;  // positions of an attention chunk

inline int ceilDiv(int a, int b) { return (a + b - 1) / b; }

inline size_t roundUp64(size_t bytes) { return (bytes + 63) / 64 * 64; }

inline float pow2(int exponent) { return ScalarLanes::fromBits((exponent + 127) << 23); }

template <class S> typename S::F pow2Lanes(typename S::I exponent) {
  return S::fromBits(S::template shl<23>(S::addI(exponent, S::splatI(127))));
}

template <class S> typename S::I magnitude(typename S::F x) { return S::andI(S::bits(x), S::splatI(0x7fffffff)); }

// Keeps the bits of `mask` after adding half a unit; below 2^-50 zero, capped at `cap`.
template <class S, int32_t half, int32_t mask, int32_t cap> typename S::F roundBits(typename S::F x) {
  const auto u = magnitude<S>(x);
  const auto sign = S::andI(S::bits(x), S::splatI(INT32_MIN));
  const auto rounded = S::andI(S::addI(S::minI(u, S::splatI(cap)), S::splatI(half)), S::splatI(mask));
  return S::fromBits(S::selectI(S::lessI(u, S::splatI(0x26800000)), S::splatI(0), S::orI(sign, rounded)));
}

// 12 significant bits, up to 2^50.
template <class S> typename S::F r12(typename S::F x) { return roundBits<S, 0x800, ~0xfff, 0x58800000>(x); }
// 16 significant bits, up to 2^30.
template <class S> typename S::F r16(typename S::F x) { return roundBits<S, 0x80, ~0xff, 0x4e800000>(x); }

// Clears the last bit, so that a product and a following sum cannot be fused.
template <class S> typename S::F b1(typename S::F x) { return S::fromBits(S::andI(S::bits(x), S::splatI(~1))); }

// x = high + low, 12 significant bits each; below 2^-50 zero, capped at 2^50.
template <class S> void split(typename S::F x, typename S::F& high, typename S::F& low) {
  const auto u = magnitude<S>(x);
  const auto sign = S::andI(S::bits(x), S::splatI(INT32_MIN));
  const auto capped = S::minI(u, S::splatI(0x58800000));
  const auto tiny = S::lessI(u, S::splatI(0x26800000));
  const auto top = S::fromBits(S::orI(sign, S::andI(capped, S::splatI(~0xfff))));
  const auto rest = S::sub(S::fromBits(S::orI(sign, capped)), top);
  high = S::select(tiny, S::zero(), top);
  low = S::select(tiny, S::zero(), rest);
}

// 2^(f/65536) for f 0..65535, Q15 in 32768..65535. Every factor has 16 bits, so a shift by 16 + n of a product is a
// shift by n of its high half.
template <class S> typename S::I exp2q(typename S::I f) {
  const auto a3 = S::addI(S::splatI(27394), S::template shr<3>(S::mulHigh16(f, S::splatI(56308))));
  const auto a2 = S::addI(S::splatI(31625), S::template shr<2>(S::mulHigh16(f, a3)));
  const auto a1 = S::addI(S::splatI(45420), S::template shr<1>(S::mulHigh16(f, a2)));
  return S::addI(S::splatI(32768), S::template shr<1>(S::addI(S::mulHigh16(f, a1), S::splatI(1))));
}

// The same in lanes of 16 bits, which hold every intermediate.
template <class S> typename S::H exp2qHalves(typename S::H f) {
  const auto a3 = S::addH(S::splatH(27394), S::template shrH<3>(S::mulHighH(f, S::splatH(56308))));
  const auto a2 = S::addH(S::splatH(31625), S::template shrH<2>(S::mulHighH(f, a3)));
  const auto a1 = S::addH(S::splatH(45420), S::template shrH<1>(S::mulHighH(f, a2)));
  return S::addH(S::splatH(32768), S::template shrH<1>(S::addH(S::mulHighH(f, a1), S::splatH(1))));
}

// exp2q of two vectors at once, of which the low 16 bits of each lane count.
template <class S> void exp2qPair(typename S::I f0, typename S::I f1, typename S::I& p0, typename S::I& p1) {
  const auto low = S::splatI(0xffff);
  if constexpr (S::width == 1) {
    p0 = exp2q<S>(S::andI(f0, low));
    p1 = exp2q<S>(S::andI(f1, low));
  } else {
    const auto p = exp2qHalves<S>(S::orI(S::andI(f0, low), S::template shl<16>(f1)));
    p0 = S::andI(p, low);
    p1 = S::template shr<16>(p);
  }
}

// x*2^-d for d >= 0: 0 from d = 64 on and below 2^-90. `factor` is scaleFactor(d).
inline float scaleFactor(int d) { return d >= 64 ? 0.0f : pow2(-d); }
template <class S> typename S::F scaleDown(typename S::F x, typename S::F factor) {
  const auto y = S::mul(x, factor);
  return S::select(S::lessI(magnitude<S>(y), S::splatI((127 - 90) << 23)), S::zero(), y);
}

// floor((2^31 + (d>>1)) / d) for d in 32768..65536, as an f32. That is the integer nearest to q = 2^31/d, which is never
// halfway between two: 2q = 2^32/d is odd for no d, and so q lies 1/(2d) >= 2^-17 or more from every half. After Newton's
// step y is 1/d to 2^-22, so the first integer is within 1/2 + 2^-6 of q, its remainder is exact in a fused multiply-add,
// and remainder*y is off by less than 2^-22: it rounds to the one integer that is missing.
// Several at once, in lockstep: a step of one vector takes cycles in which the others can be stepped.
template <class S, int count> inline __attribute__((always_inline)) void reciprocals(const typename S::I (&d)[count], typename S::F (&inverse)[count]) {
  if constexpr (S::width == 1) {
    for (int i = 0; i < count; i++) {
      const auto divisor = static_cast<uint32_t>(d[i]);
      inverse[i] = static_cast<float>((0x80000000u + divisor / 2) / divisor);
    }
  } else {
    const auto toInteger = S::splat(12582912.0f);  // 1.5*2^23: a sum with it is rounded to an integer
    const auto dividend = S::splat(2147483648.0f);
    typename S::F divisor[count], y[count], first[count];
    for (int i = 0; i < count; i++) divisor[i] = S::toFloat(d[i]);
    for (int i = 0; i < count; i++) y[i] = S::reciprocalEstimate(divisor[i]);
    for (int i = 0; i < count; i++) y[i] = S::multiplyAdd(y[i], S::subtractProduct(S::splat(1.0f), divisor[i], y[i]), y[i]);
    for (int i = 0; i < count; i++) first[i] = S::sub(S::multiplyAdd(y[i], dividend, toInteger), toInteger);
    for (int i = 0; i < count; i++) divisor[i] = S::subtractProduct(dividend, first[i], divisor[i]);
    for (int i = 0; i < count; i++) inverse[i] = S::add(first[i], S::sub(S::multiplyAdd(divisor[i], y[i], toInteger), toInteger));
  }
}

// 1/x of a positive normal x, 16 significant bits.
inline float recip(float x) {
  const uint32_t u = static_cast<uint32_t>(ScalarLanes::bits(x));
  const int exponent = static_cast<int>(u >> 23) - 127;
  const uint32_t m = (((u & 0x7fffff) | 0x800000) + 0x80) >> 8;
  return static_cast<float>((0x80000000u + (m >> 1)) / m) * pow2(-exponent - 16);
}

// 1/sqrt(x) of a positive normal x, 16 significant bits.
inline float rsqrt(float x) {
  const uint32_t u = static_cast<uint32_t>(ScalarLanes::bits(x));
  const int exponent = static_cast<int>(u >> 23) - 127;
  const int odd = exponent & 1;
  const uint32_t v = ((u & 0x7fffff) | 0x800000) << (7 + odd);
  // The floor: v has 32 bits, so the root of a number that is no square lies further from the next integer than an f64
  // of its size is rounded.
  uint32_t root = static_cast<uint32_t>(__builtin_sqrt(static_cast<double>(v)));
  if (v - root * root > root) root++;
  return static_cast<float>((0x80000000u + (root >> 1)) / root) * pow2(-(exponent - 30 - odd) / 2 - 31);
}

}  // namespace
}  // namespace stet::cpu
