// A block's planes by AVX-512: 32 values at once, exponent and all, as quantizeBlock of q15.inl.h defines them.
#pragma once
#include "byte_input.inl.h"
#include "byte_lanes_avx512vnni.h"

namespace stet::cpu {
namespace {

// The largest of sixteen i32, in every lane.
inline __m512i largestEverywhere(__m512i a) {
  a = _mm512_max_epi32(a, _mm512_shuffle_i32x4(a, a, 0x4e));
  a = _mm512_max_epi32(a, _mm512_shuffle_i32x4(a, a, 0xb1));
  a = _mm512_max_epi32(a, _mm512_shuffle_epi32(a, _MM_PERM_BADC));
  return _mm512_max_epi32(a, _mm512_shuffle_epi32(a, _MM_PERM_CDAB));
}

inline __m512i scaledInteger(__m512 x, __m512 factor) {
  // The smaller magnitude, with the sign of the first.
  return _mm512_cvtps_epi32(_mm512_range_ps(_mm512_mul_ps(x, factor), _mm512_set1_ps(16256.0f), 0x02));
}

template <>
inline int quantizeByteBlock<VnniByteLanes>(const float* x, int count, std::byte* highPlane, std::byte* lowPlane, PlaneSums& sums) {
  const __mmask32 inside = count >= 32 ? 0xffffffffu : (1u << count) - 1;
  const __m512 first = _mm512_maskz_loadu_ps(static_cast<__mmask16>(inside), x);
  const __m512 second = _mm512_maskz_loadu_ps(static_cast<__mmask16>(inside >> 16), x + 16);
  const __m512i magnitudeBits = _mm512_set1_epi32(0x7fffffff);
  const __m512i largest = largestEverywhere(_mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(first), magnitudeBits),
                                                             _mm512_and_si512(_mm512_castps_si512(second), magnitudeBits)));
  __m512i exponent = _mm512_srli_epi32(_mm512_add_epi32(largest, _mm512_set1_epi32(0x1ffff)), 23);
  exponent = _mm512_sub_epi32(exponent, _mm512_set1_epi32(133));
  exponent = _mm512_min_epi32(_mm512_max_epi32(exponent, _mm512_set1_epi32(-40)), _mm512_set1_epi32(20));
  const __m512 factor = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(7 + 127), exponent), 23));
  // In each quarter: 4 of the first values, then 4 of the second, in 16 bits.
  const __m512i values = _mm512_packs_epi32(scaledInteger(first, factor), scaledInteger(second, factor));
  const __m512i high = _mm512_srai_epi16(_mm512_add_epi16(values, _mm512_set1_epi16(64)), 7);
  const __m512i low = _mm512_sub_epi16(values, _mm512_slli_epi16(high, 7));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i planes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(high, low));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(highPlane), _mm512_castsi512_si256(planes));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lowPlane), _mm512_extracti64x4_epi64(planes, 1));
  // Sums of eight biased bytes each, then of a plane's four.
  __m512i parts = _mm512_sad_epu8(_mm512_xor_si512(planes, _mm512_set1_epi8(-128)), _mm512_setzero_si512());
  parts = _mm512_add_epi64(parts, _mm512_shuffle_epi32(parts, _MM_PERM_BADC));
  parts = _mm512_add_epi64(parts, _mm512_shuffle_i64x2(parts, parts, 0xb1));
  constexpr int bias = 128 * blockElements;
  sums = {_mm512_cvtsi512_si32(parts) - bias, _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(parts, 2)) - bias};
  return _mm512_cvtsi512_si32(exponent);
}

}  // namespace
}  // namespace stet::cpu
