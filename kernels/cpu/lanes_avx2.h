// Eight lanes of AVX2 and FMA; see lanes_scalar.h for what each operation means.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace stet::cpu {
namespace {

struct Avx2Lanes {
  static constexpr int width = 8;
  static constexpr int operandBias = 0;
  using F = __m256;
  using I = __m256i;
  using M = __m256i;  // all bits of a lane, or none
  static constexpr int halfWidth = 16;
  using H = __m256i;

  static F zero() { return _mm256_setzero_ps(); }
  static F splat(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F loadFirst(const float* p, int count) { return _mm256_maskload_ps(p, firstLanes(count)); }
  static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  static void storeFirst(float* p, F a, int count) { _mm256_maskstore_ps(p, firstLanes(count), a); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F multiplyAddExact(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F multiplyAdd(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F minimum(F a, F b) { return _mm256_min_ps(a, b); }
  static F maximum(F a, F b) { return _mm256_max_ps(a, b); }
  static F divide(F a, F b) { return _mm256_div_ps(a, b); }
  // c - a*b, rounded once.
  static F subtractProduct(F c, F a, F b) { return _mm256_fnmadd_ps(a, b, c); }
  // 1/a to 2^-11; its bits depend on the maker of the CPU.
  static F reciprocalEstimate(F a) { return _mm256_rcp_ps(a); }

  static I splatI(int32_t x) { return _mm256_set1_epi32(x); }
  static I loadI(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void storeI(int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
  static I addI(I a, I b) { return _mm256_add_epi32(a, b); }
  static I subI(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I mulI(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I mulHigh16(I a, I b) { return _mm256_mulhi_epu16(a, b); }
  static I andI(I a, I b) { return _mm256_and_si256(a, b); }
  static I orI(I a, I b) { return _mm256_or_si256(a, b); }
  static I minI(I a, I b) { return _mm256_min_epi32(a, b); }
  static I maxI(I a, I b) { return _mm256_max_epi32(a, b); }
  template <int n> static I shl(I a) { return _mm256_slli_epi32(a, n); }
  template <int n> static I shr(I a) { return _mm256_srli_epi32(a, n); }
  template <int n> static I sar(I a) { return _mm256_srai_epi32(a, n); }
  static I shlBy(I a, I n) { return _mm256_sllv_epi32(a, n); }
  static I shrBy(I a, I n) { return _mm256_srlv_epi32(a, n); }

  static I bits(F a) { return _mm256_castps_si256(a); }
  static F fromBits(I a) { return _mm256_castsi256_ps(a); }
  static F toFloat(I a) { return _mm256_cvtepi32_ps(a); }
  static I toIntNearest(F a) { return _mm256_cvtps_epi32(a); }
  static I toIntTruncate(F a) { return _mm256_cvttps_epi32(a); }

  static M less(F a, F b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
  static M lessI(I a, I b) { return _mm256_cmpgt_epi32(b, a); }
  static M equalI(I a, I b) { return _mm256_cmpeq_epi32(a, b); }
  static bool any(M m) { return !_mm256_testz_si256(m, m); }
  static F select(M m, F whenTrue, F whenFalse) { return _mm256_blendv_ps(whenFalse, whenTrue, _mm256_castsi256_ps(m)); }
  static I selectI(M m, I whenTrue, I whenFalse) { return _mm256_blendv_epi8(whenFalse, whenTrue, m); }
  static I laneIndex() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  static int32_t maxAll(I a) {
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }
  static int32_t minAll(I a) {
    __m128i x = _mm_min_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_min_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }
  static int32_t sumAll(I a) {
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }
  // Lane i + lane i + width/2, folded until one is left.
  static float sumPairs(F a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
  }

  static H splatH(int32_t x) { return _mm256_set1_epi16(static_cast<int16_t>(x)); }
  static H highHalves(const int32_t* p) {
    return inOrder(_mm256_packs_epi32(_mm256_srai_epi32(loadI(p), 16), _mm256_srai_epi32(loadI(p + 8), 16)));
  }
  static H lowHalves(const int32_t* p) {
    const __m256i low = _mm256_set1_epi32(0xffff);
    return inOrder(_mm256_packus_epi32(_mm256_and_si256(loadI(p), low), _mm256_and_si256(loadI(p + 8), low)));
  }
  static H firstH(H a, int count, H other) {
    const __m256i index = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    // Bounded on both sides: a lane holds 16 bits, a position may have more.
    const int bounded = count < 0 ? 0 : count > halfWidth ? halfWidth : count;
    return _mm256_blendv_epi8(other, a, _mm256_cmpgt_epi16(splatH(bounded), index));
  }
  static H addH(H a, H b) { return _mm256_add_epi16(a, b); }
  static H addSaturateH(H a, H b) { return _mm256_adds_epi16(a, b); }
  static H subH(H a, H b) { return _mm256_sub_epi16(a, b); }
  static H maxH(H a, H b) { return _mm256_max_epi16(a, b); }
  static H andH(H a, H b) { return _mm256_and_si256(a, b); }
  template <int n> static H shrH(H a) { return _mm256_srli_epi16(a, n); }
  static H mulHighH(H a, H b) { return _mm256_mulhi_epu16(a, b); }
  // There are no variable shifts of 16 bits: even and odd lanes go through 32.
  static H roundingShiftH(H e, H s) {
    const __m256i low = _mm256_set1_epi32(0xffff);
    const __m256i even = roundingShift32(_mm256_and_si256(e, low), _mm256_and_si256(s, low));
    const __m256i odd = roundingShift32(_mm256_srli_epi32(e, 16), _mm256_srli_epi32(s, 16));
    return _mm256_or_si256(even, _mm256_slli_epi32(odd, 16));
  }
  static int32_t maxAllH(H a) { return maxOfEight(_mm_max_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1))); }
  static I pairSumsH(H a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }
  static H loadBytesH(const int8_t* p, const int8_t*) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void storeBytesH(void* p, H a) {
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(a, a), 0x08);
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(bytes));
  }

  static I loadBytes(const int8_t* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
  static void storeBytes(void* p, I a) {
    const __m256i low = _mm256_shuffle_epi8(a, _mm256_set1_epi32(0x0c080400));
    const uint32_t parts[2] = {static_cast<uint32_t>(_mm256_extract_epi32(low, 0)), static_cast<uint32_t>(_mm256_extract_epi32(low, 4))};
    std::memcpy(p, parts, sizeof parts);
  }

  static void storeEveryFourth(void* p, I a) {
    alignas(32) int32_t lanes[width];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), a);
    for (int i = 0; i < width; i++) static_cast<uint8_t*>(p)[i * 4] = static_cast<uint8_t>(lanes[i]);
  }

  // maddubs cannot saturate: two products of at most 127*127.
  static I dotStored(I acc, I a, I b) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static I dotUnsigned(I acc, I a, I b) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
  }

 private:
  static __m256i inOrder(__m256i packed) { return _mm256_permute4x64_epi64(packed, 0xd8); }
  static __m256i roundingShift32(__m256i e, __m256i s) {
    const __m256i half = _mm256_srli_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), s), 1);
    return _mm256_srlv_epi32(_mm256_add_epi32(e, half), s);
  }
  // The instruction finds the least of eight u16, so order is turned round.
  static int32_t maxOfEight(__m128i a) {
    const __m128i turned = _mm_xor_si128(a, _mm_set1_epi16(0x7fff));
    return static_cast<int16_t>(_mm_extract_epi16(_mm_minpos_epu16(turned), 0) ^ 0x7fff);
  }
  static __m256i firstLanes(int count) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), laneIndex()); }
};

}  // namespace
}  // namespace stet::cpu
