// Sixteen lanes of AVX-512 (F, BW, VL, DQ); see lanes_scalar.h for what each operation means. The dot products of bytes
// need VNNI and stand in lanes_avx512vnni.h.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace stet::cpu {
namespace {

struct Avx512Lanes {
  static constexpr int width = 16;
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;
  static constexpr int halfWidth = 32;
  using H = __m512i;

  static F zero() { return _mm512_setzero_ps(); }
  static F splat(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F loadFirst(const float* p, int count) { return _mm512_maskz_loadu_ps(firstLanes(count), p); }
  static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static void storeFirst(float* p, F a, int count) { _mm512_mask_storeu_ps(p, firstLanes(count), a); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F multiplyAddExact(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F multiplyAdd(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F minimum(F a, F b) { return _mm512_min_ps(a, b); }
  static F maximum(F a, F b) { return _mm512_max_ps(a, b); }
  static F divide(F a, F b) { return _mm512_div_ps(a, b); }
  // c - a*b, rounded once.
  static F subtractProduct(F c, F a, F b) { return _mm512_fnmadd_ps(a, b, c); }
  // 1/a to 2^-11; its bits depend on the maker of the CPU.
  static F reciprocalEstimate(F a) { return _mm512_rcp14_ps(a); }

  static I splatI(int32_t x) { return _mm512_set1_epi32(x); }
  static I loadI(const void* p) { return _mm512_loadu_si512(p); }
  static void storeI(int32_t* p, I a) { _mm512_storeu_si512(p, a); }
  static I addI(I a, I b) { return _mm512_add_epi32(a, b); }
  static I subI(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I mulI(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I mulHigh16(I a, I b) { return _mm512_mulhi_epu16(a, b); }
  static I andI(I a, I b) { return _mm512_and_si512(a, b); }
  static I orI(I a, I b) { return _mm512_or_si512(a, b); }
  static I minI(I a, I b) { return _mm512_min_epi32(a, b); }
  static I maxI(I a, I b) { return _mm512_max_epi32(a, b); }
  template <int n> static I shl(I a) { return _mm512_slli_epi32(a, n); }
  template <int n> static I shr(I a) { return _mm512_srli_epi32(a, n); }
  template <int n> static I sar(I a) { return _mm512_srai_epi32(a, n); }
  static I shlBy(I a, I n) { return _mm512_sllv_epi32(a, n); }
  static I shrBy(I a, I n) { return _mm512_srlv_epi32(a, n); }

  static I bits(F a) { return _mm512_castps_si512(a); }
  static F fromBits(I a) { return _mm512_castsi512_ps(a); }
  static F toFloat(I a) { return _mm512_cvtepi32_ps(a); }
  static I toIntNearest(F a) { return _mm512_cvtps_epi32(a); }
  static I toIntTruncate(F a) { return _mm512_cvttps_epi32(a); }

  static M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static M lessI(I a, I b) { return _mm512_cmplt_epi32_mask(a, b); }
  static M equalI(I a, I b) { return _mm512_cmpeq_epi32_mask(a, b); }
  static bool any(M m) { return m != 0; }
  static F select(M m, F whenTrue, F whenFalse) { return _mm512_mask_blend_ps(m, whenFalse, whenTrue); }
  static I selectI(M m, I whenTrue, I whenFalse) { return _mm512_mask_blend_epi32(m, whenFalse, whenTrue); }
  static I laneIndex() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
  static int32_t maxAll(I a) { return _mm512_reduce_max_epi32(a); }
  static int32_t minAll(I a) { return _mm512_reduce_min_epi32(a); }
  static int32_t sumAll(I a) { return _mm512_reduce_add_epi32(a); }
  static float sumPairs(F a) {
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
  }

  static H splatH(int32_t x) { return _mm512_set1_epi16(static_cast<int16_t>(x)); }
  static H highHalves(const int32_t* p) { return _mm512_permutex2var_epi16(loadI(p), halfIndex(1), loadI(p + 16)); }
  static H lowHalves(const int32_t* p) { return _mm512_permutex2var_epi16(loadI(p), halfIndex(0), loadI(p + 16)); }
  static H firstH(H a, int count, H other) {
    const __mmask32 first = count <= 0 ? 0 : count >= 32 ? 0xffffffffu : (1u << count) - 1;
    return _mm512_mask_blend_epi16(first, other, a);
  }
  static H addH(H a, H b) { return _mm512_add_epi16(a, b); }
  static H addSaturateH(H a, H b) { return _mm512_adds_epi16(a, b); }
  static H subH(H a, H b) { return _mm512_sub_epi16(a, b); }
  static H maxH(H a, H b) { return _mm512_max_epi16(a, b); }
  static H andH(H a, H b) { return _mm512_and_si512(a, b); }
  template <int n> static H shrH(H a) { return _mm512_srli_epi16(a, n); }
  static H mulHighH(H a, H b) { return _mm512_mulhi_epu16(a, b); }
  static H roundingShiftH(H e, H s) {
    const __m512i half = _mm512_srli_epi16(_mm512_sllv_epi16(splatH(1), s), 1);
    return _mm512_srlv_epi16(_mm512_add_epi16(e, half), s);
  }
  // The instruction finds the least of eight u16, so order is turned round.
  static int32_t maxAllH(H a) {
    const __m256i y = _mm256_max_epi16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i x = _mm_max_epi16(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    const __m128i turned = _mm_xor_si128(x, _mm_set1_epi16(0x7fff));
    return static_cast<int16_t>(_mm_extract_epi16(_mm_minpos_epu16(turned), 0) ^ 0x7fff);
  }
  static I pairSumsH(H a) { return _mm512_madd_epi16(a, splatH(1)); }
  static H loadBytesH(const int8_t* p, const int8_t* next) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(next));
    return _mm512_cvtepi8_epi16(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
  }
  static void storeBytesH(void* p, H a) { _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi16_epi8(a)); }

  static I loadBytes(const int8_t* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static void storeBytes(void* p, I a) { _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a)); }
  static void storeEveryFourth(void* p, I a) { _mm512_mask_storeu_epi8(p, 0x1111111111111111u, a); }

 private:
  // Of the 32 i32 of two vectors, which half of each.
  static __m512i halfIndex(int high) {
    const __m512i pairs = _mm512_setr_epi32(0x00020000, 0x00060004, 0x000a0008, 0x000e000c, 0x00120010, 0x00160014, 0x001a0018, 0x001e001c,
                                            0x00220020, 0x00260024, 0x002a0028, 0x002e002c, 0x00320030, 0x00360034, 0x003a0038, 0x003e003c);
    return _mm512_add_epi16(pairs, splatH(high));
  }
  static __mmask16 firstLanes(int count) { return count >= 16 ? 0xffff : static_cast<__mmask16>((1u << count) - 1); }
};

}  // namespace
}  // namespace stet::cpu
