// Eight lanes of f32 and four of f64, as sampling.inl.h asks for; sampling_lanes_scalar.h says what each does.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace stet::cpu {
namespace {

struct Avx2SamplingLanes {
  static constexpr int width = 8;
  static constexpr int width64 = 4;
  using F = __m256;
  using U = __m256i;
  using D = __m256d;

  static F splat(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  static F maximum(F a, F b) { return _mm256_max_ps(a, b); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static uint32_t notLess(F a, F b) { return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ))); }

  static U splatU(uint32_t x) { return _mm256_set1_epi32(static_cast<int32_t>(x)); }
  static void storeU(uint32_t* p, U a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
  static U addU(U a, U b) { return _mm256_add_epi32(a, b); }
  static U xorU(U a, U b) { return _mm256_xor_si256(a, b); }
  static U invert(U a) { return _mm256_xor_si256(a, _mm256_set1_epi32(-1)); }
  static U shiftRight8(U a) { return _mm256_srli_epi32(a, 8); }
  static void multiply(U a, uint32_t b, U& high, U& low) {
    const U factor = splatU(b);
    const U even = _mm256_mul_epu32(a, factor);
    const U odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
    high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    low = _mm256_mullo_epi32(a, factor);
  }
  static F toFloat(U a) { return _mm256_cvtepi32_ps(a); }
  static U bitsOf(F a) { return _mm256_castps_si256(a); }
  // The transposition is one of each half: its row k has block 2k in the low half and 2k + 1 in the high one.
  static U blockOrder() { return _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7); }
  static void transpose(U w[4]) {
    const U a = _mm256_unpacklo_epi32(w[0], w[1]);
    const U b = _mm256_unpackhi_epi32(w[0], w[1]);
    const U c = _mm256_unpacklo_epi32(w[2], w[3]);
    const U d = _mm256_unpackhi_epi32(w[2], w[3]);
    w[0] = _mm256_unpacklo_epi64(a, c);
    w[1] = _mm256_unpackhi_epi64(a, c);
    w[2] = _mm256_unpacklo_epi64(b, d);
    w[3] = _mm256_unpackhi_epi64(b, d);
  }

  static D splatD(double x) { return _mm256_set1_pd(x); }
  static D loadD(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static D loadD(const double* p) { return _mm256_loadu_pd(p); }
  static void storeD(double* p, D a) { _mm256_storeu_pd(p, a); }
  static D addD(D a, D b) { return _mm256_add_pd(a, b); }
  static D subD(D a, D b) { return _mm256_sub_pd(a, b); }
  static D mulD(D a, D b) { return _mm256_mul_pd(a, b); }
  static D divideD(D a, D b) { return _mm256_div_pd(a, b); }
  static D floorD(D a) { return _mm256_floor_pd(a); }
  static D nearestD(D a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static D fusedOrNot(D a, D b, D c) { return _mm256_fmadd_pd(a, b, c); }
  static D scale(D a, D k) {
    const __m256i exponent = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(k)), _mm256_set1_epi64x(1023));
    return _mm256_mul_pd(a, _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52)));
  }
  static D zeroWhereLess(D a, double b, D otherwise) { return _mm256_andnot_pd(_mm256_cmp_pd(a, splatD(b), _CMP_LT_OQ), otherwise); }
  static D zeroUnlessLess(D a, double b, D otherwise) { return _mm256_and_pd(_mm256_cmp_pd(a, splatD(b), _CMP_LT_OQ), otherwise); }
};

}  // namespace
}  // namespace stet::cpu
