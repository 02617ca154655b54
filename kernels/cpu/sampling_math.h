// What docs/SAMPLING.md defines of single numbers, each operation rounded once. For sampling.cpp alone.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace stet::cpu {
namespace {

inline double powerOfTwo(int32_t exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

inline double lnOf(double x) {
  auto exponent = static_cast<int32_t>(std::bit_cast<uint64_t>(x) >> 52) - 1023;
  double mantissa = x * powerOfTwo(-exponent);
  if (mantissa > 1.5) {
    mantissa *= 0.5;
    exponent++;
  }
  const double z = (mantissa - 1) / (mantissa + 1);
  const double zz = z * z;
  double sum = 0;
  for (int i = 12; i >= 0; i--) sum = sum * zz + 1.0 / (2 * i + 1);
  return 2 * z * sum + exponent * 0.6931471805599453;
}

inline double expOf(double x) {
  if (x < -708) return 0;
  const double k = std::floor(x / 0.6931471805599453 + 0.5);
  const double r = x - k * 0.6931471803691238 - k * 1.9082149292705877e-10;
  static constexpr double reciprocals[] = {1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                           1.0 / 362880,      1.0 / 40320,      1.0 / 5040,      1.0 / 720,      1.0 / 120,
                                           1.0 / 24,          1.0 / 6,          1.0 / 2,         1.0,            1.0};
  double sum = 0;
  for (const double reciprocal : reciprocals) sum = sum * r + reciprocal;
  return sum * powerOfTwo(static_cast<int32_t>(k));
}

inline double gumbelOf(uint32_t word) { return -lnOf(-lnOf((word + 0.5) * 0x1p-32)); }

// No noise is larger.
constexpr double gumbelMax = 22.9;

// At least the noise of a word, by its leading ones: with n of them 1 - u is at least 2^-(n + 1).
inline double gumbelBound(uint32_t word) { return (std::countl_one(word) + 1) * 0.6931471805599454 + 1e-9; }

// The random word of a token.
inline uint32_t noiseWord(uint32_t key0, uint32_t key1, uint32_t outputIndex, int32_t token) {
  uint32_t counter[4] = {outputIndex, 0, static_cast<uint32_t>(token) / 4, 0};
  for (int round = 0; round < 10; round++) {
    const uint64_t a = static_cast<uint64_t>(0xd2511f53u) * counter[0];
    const uint64_t b = static_cast<uint64_t>(0xcd9e8d57u) * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0;
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1;
    counter[3] = static_cast<uint32_t>(a);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter[token & 3];
}

// Every logit below it, divided by the temperature, is below `value`.
inline double leastLogit(double value, double temperature) {
  const double logit = value * temperature;
  return logit == -HUGE_VAL ? logit : logit - std::fabs(logit) * 0x1p-50;
}

// The largest f32 that is not above x.
inline float floatBelow(double x) {
  if (x >= 3.4028234663852886e38) return 3.4028234663852886e38f;
  if (x < -3.4028234663852886e38) return -HUGE_VALF;
  const auto nearest = static_cast<float>(x);
  return nearest > x ? std::nextafterf(nearest, -HUGE_VALF) : nearest;
}

}  // namespace
}  // namespace stet::cpu
