// Sixteen lanes of f32 and eight of f64, as sampling.inl.h asks for; sampling_lanes_scalar.h says what each does.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace stet::cpu {
namespace {

struct Avx512SamplingLanes {
  static constexpr int width = 16;
  static constexpr int width64 = 8;
  using F = __m512;
  using U = __m512i;
  using D = __m512d;

  static F splat(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static F maximum(F a, F b) { return _mm512_max_ps(a, b); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static uint32_t notLess(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }

  static U splatU(uint32_t x) { return _mm512_set1_epi32(static_cast<int32_t>(x)); }
  static void storeU(uint32_t* p, U a) { _mm512_storeu_si512(p, a); }
  static U addU(U a, U b) { return _mm512_add_epi32(a, b); }
  static U xorU(U a, U b) { return _mm512_xor_si512(a, b); }
  static U invert(U a) { return _mm512_ternarylogic_epi32(a, a, a, 0x55); }
  static U shiftRight8(U a) { return _mm512_srli_epi32(a, 8); }
  static void multiply(U a, uint32_t b, U& high, U& low) {
    const U factor = splatU(b);
    const U even = _mm512_mul_epu32(a, factor);
    const U odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
    // The instruction of 32-bit products takes twice as long as putting them together from these.
    high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
  }
  static F toFloat(U a) { return _mm512_cvtepi32_ps(a); }
  static U bitsOf(F a) { return _mm512_castps_si512(a); }
  // The transposition is one of each quarter: its row k has blocks 4k .. 4k + 3, one a quarter.
  static U blockOrder() { return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); }
  static void transpose(U w[4]) {
    const U a = _mm512_unpacklo_epi32(w[0], w[1]);
    const U b = _mm512_unpackhi_epi32(w[0], w[1]);
    const U c = _mm512_unpacklo_epi32(w[2], w[3]);
    const U d = _mm512_unpackhi_epi32(w[2], w[3]);
    w[0] = _mm512_unpacklo_epi64(a, c);
    w[1] = _mm512_unpackhi_epi64(a, c);
    w[2] = _mm512_unpacklo_epi64(b, d);
    w[3] = _mm512_unpackhi_epi64(b, d);
  }

  static D splatD(double x) { return _mm512_set1_pd(x); }
  static D loadD(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static D loadD(const double* p) { return _mm512_loadu_pd(p); }
  static void storeD(double* p, D a) { _mm512_storeu_pd(p, a); }
  static D addD(D a, D b) { return _mm512_add_pd(a, b); }
  static D subD(D a, D b) { return _mm512_sub_pd(a, b); }
  static D mulD(D a, D b) { return _mm512_mul_pd(a, b); }
  static D divideD(D a, D b) { return _mm512_div_pd(a, b); }
  static D floorD(D a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static D nearestD(D a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static D fusedOrNot(D a, D b, D c) { return _mm512_fmadd_pd(a, b, c); }
  static D scale(D a, D k) { return _mm512_scalef_pd(a, k); }
  static D zeroWhereLess(D a, double b, D otherwise) {
    return _mm512_maskz_mov_pd(static_cast<__mmask8>(~_mm512_cmp_pd_mask(a, splatD(b), _CMP_LT_OQ)), otherwise);
  }
  static D zeroUnlessLess(D a, double b, D otherwise) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, splatD(b), _CMP_LT_OQ), otherwise);
  }
};

}  // namespace
}  // namespace stet::cpu
