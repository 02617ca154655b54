// One lane of what sampling.inl.h asks for.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace stet::cpu {
namespace {

struct ScalarSamplingLanes {
  static constexpr int width = 1;
  static constexpr int width64 = 1;
  using F = float;
  using U = uint32_t;
  using D = double;

  static F splat(float x) { return x; }
  static F load(const float* p) { return *p; }
  static void store(float* p, F a) { *p = a; }
  static F maximum(F a, F b) { return a > b ? a : b; }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  // Bits of the lanes where a is not less than b.
  static uint32_t notLess(F a, F b) { return a < b ? 0 : 1; }

  static U splatU(uint32_t x) { return x; }
  static void storeU(uint32_t* p, U a) { *p = a; }
  static U addU(U a, U b) { return a + b; }
  static U xorU(U a, U b) { return a ^ b; }
  static U invert(U a) { return ~a; }
  static U shiftRight8(U a) { return a >> 8; }
  static void multiply(U a, uint32_t b, U& high, U& low) {
    const uint64_t product = static_cast<uint64_t>(a) * b;
    high = static_cast<uint32_t>(product >> 32);
    low = static_cast<uint32_t>(product);
  }
  // Of words below 2^31.
  static F toFloat(U a) { return static_cast<float>(static_cast<int32_t>(a)); }
  static U bitsOf(F a) { return std::bit_cast<uint32_t>(a); }
  // Which of `width` blocks of four words stands in each lane before `transpose`, which puts all words in order.
  static U blockOrder() { return 0; }
  static void transpose(U[4]) {}

  static D splatD(double x) { return x; }
  static D loadD(const float* p) { return *p; }
  static D loadD(const double* p) { return *p; }
  static void storeD(double* p, D a) { *p = a; }
  static D addD(D a, D b) { return a + b; }
  static D subD(D a, D b) { return a - b; }
  static D mulD(D a, D b) { return a * b; }
  static D divideD(D a, D b) { return a / b; }
  static D floorD(D a) { return std::floor(a); }
  // Some nearest integer.
  static D nearestD(D a) { return std::floor(a + 0.5); }
  // a*b + c, rounded once or twice: for estimates.
  static D fusedOrNot(D a, D b, D c) { return a * b + c; }
  // a * 2^k for -1022 <= k <= 0; anything for other k.
  static D scale(D a, D k) {
    if (!(k >= -1022 && k <= 0)) return 0;
    return a * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(k) + 1023) << 52);
  }
  static D zeroWhereLess(D a, double b, D otherwise) { return a < b ? 0 : otherwise; }
  static D zeroUnlessLess(D a, double b, D otherwise) { return a < b ? otherwise : 0; }
};

}  // namespace
}  // namespace stet::cpu
