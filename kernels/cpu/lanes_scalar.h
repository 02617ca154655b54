// One lane: the plain C++ every other set of lanes is an image of. The operation templates (*.inl.h) take such a set
// as their parameter. Integer operations wrap; shifts by 32 and more give 0, as the vector instructions do.
#pragma once
#include <cstdint>
#include <cstring>

namespace stet::cpu {
namespace {

struct ScalarLanes {
  static constexpr int width = 1;
  // Added to stored int8 operands so that they are unsigned, where the dot instruction wants that.
  static constexpr int operandBias = 0;
  using F = float;
  using I = int32_t;
  using M = bool;
  // Lanes of 16 bits, for the weights of attention; here one, in an int.
  static constexpr int halfWidth = 1;
  using H = int32_t;

  static uint32_t u(I a) { return static_cast<uint32_t>(a); }
  static I s(uint32_t a) { return static_cast<I>(a); }

  static F zero() { return 0.0f; }
  static F splat(float x) { return x; }
  static F load(const float* p) { return *p; }
  static F loadFirst(const float* p, int count) { return count > 0 ? *p : 0.0f; }
  static void store(float* p, F a) { *p = a; }
  static void storeFirst(float* p, F a, int count) {
    if (count > 0) *p = a;
  }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  // a*b + c where a*b is exact: one rounding or two give the same bits.
  static F multiplyAddExact(F a, F b, F c) { return a * b + c; }
  // a*b + c, rounded once or twice: for `fast` alone.
  static F multiplyAdd(F a, F b, F c) { return a * b + c; }
  static F minimum(F a, F b) { return a < b ? a : b; }
  static F maximum(F a, F b) { return a > b ? a : b; }
  static F divide(F a, F b) { return a / b; }

  static I splatI(int32_t x) { return x; }
  static I loadI(const void* p) {
    I a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  static void storeI(int32_t* p, I a) { *p = a; }
  static I addI(I a, I b) { return s(u(a) + u(b)); }
  static I subI(I a, I b) { return s(u(a) - u(b)); }
  static I mulI(I a, I b) { return s(u(a) * u(b)); }
  // (a*b) >> 16 for a and b in 0..65535.
  static I mulHigh16(I a, I b) { return s(u(a) * u(b) >> 16); }
  static I andI(I a, I b) { return a & b; }
  static I orI(I a, I b) { return a | b; }
  static I minI(I a, I b) { return a < b ? a : b; }
  static I maxI(I a, I b) { return a > b ? a : b; }
  template <int n> static I shl(I a) { return s(u(a) << n); }
  template <int n> static I shr(I a) { return s(u(a) >> n); }
  template <int n> static I sar(I a) { return a >> n; }
  static I shlBy(I a, I n) { return u(n) > 31 ? 0 : s(u(a) << n); }
  static I shrBy(I a, I n) { return u(n) > 31 ? 0 : s(u(a) >> n); }

  static I bits(F a) {
    I b;
    std::memcpy(&b, &a, sizeof b);
    return b;
  }
  static F fromBits(I a) {
    F b;
    std::memcpy(&b, &a, sizeof b);
    return b;
  }
  static F toFloat(I a) { return static_cast<F>(a); }
  // Nearest even, |a| <= 2^22: adding 1.5*2^23 leaves the integer in the low bits.
  static I toIntNearest(F a) { return subI(bits(a + 12582912.0f), 0x4b400000); }
  static I toIntTruncate(F a) { return static_cast<I>(a); }

  static M less(F a, F b) { return a < b; }
  static M lessI(I a, I b) { return a < b; }
  static M equalI(I a, I b) { return a == b; }
  static bool any(M m) { return m; }
  static F select(M m, F whenTrue, F whenFalse) { return m ? whenTrue : whenFalse; }
  static I selectI(M m, I whenTrue, I whenFalse) { return m ? whenTrue : whenFalse; }
  static I laneIndex() { return 0; }
  static int32_t maxAll(I a) { return a; }
  static int32_t minAll(I a) { return a; }
  static int32_t sumAll(I a) { return a; }
  static float sumPairs(F a) { return a; }

  static H splatH(int32_t x) { return x; }
  // High and low halves of `halfWidth` i32.
  static H highHalves(const int32_t* p) { return *p >> 16; }
  static H lowHalves(const int32_t* p) { return *p & 0xffff; }
  static H firstH(H a, int count, H other) { return count > 0 ? a : other; }
  static H addH(H a, H b) { return a + b; }
  // Saturates at the ends of i16.
  static H addSaturateH(H a, H b) { return a + b < -32768 ? -32768 : a + b > 32767 ? 32767 : a + b; }
  static H subH(H a, H b) { return a - b; }
  static H maxH(H a, H b) { return a > b ? a : b; }
  static H andH(H a, H b) { return a & b; }
  template <int n> static H shrH(H a) { return a >> n; }
  static H mulHighH(H a, H b) { return mulHigh16(a, b); }
  // (e + half of 2^s) >> s for 0 <= e < 2^15 and s as u16; 0 from s = 16 on.
  static H roundingShiftH(H e, H s) { return s >= 16 ? 0 : (e + ((1 << s) >> 1)) >> s; }
  static int32_t maxAllH(H a) { return a; }
  // i32 lanes whose total is that of the halves, which are not negative.
  static I pairSumsH(H a) { return a; }
  // int8 of the positions of one group of 16, and of the next, where there are that many halves.
  static H loadBytesH(const int8_t* p, const int8_t*) { return *p; }
  static void storeBytesH(void* p, H a) { storeBytes(p, a); }

  // `width` bytes, sign-extended; and back, the low byte of each lane.
  static I loadBytes(const int8_t* p) { return *p; }
  static void storeBytes(void* p, I a) { *static_cast<uint8_t*>(p) = static_cast<uint8_t>(a); }

  // The low byte of each lane to byte 0 of each of `width` groups of 4; no other byte is touched.
  static void storeEveryFourth(void* p, I a) { storeBytes(p, a); }

  // acc + the dot product of four int8 and four int8 in each lane; |a| <= 127 and |b| <= 127.
  static I dotStored(I acc, I a, I b) {
    for (int i = 0; i < 32; i += 8) acc += static_cast<int8_t>(u(a) >> i) * static_cast<int8_t>(u(b) >> i);
    return acc;
  }
  // acc + the dot product of four uint8 up to 127 and four int8 in each lane.
  static I dotUnsigned(I acc, I a, I b) { return dotStored(acc, a, b); }
};

}  // namespace
}  // namespace stet::cpu
