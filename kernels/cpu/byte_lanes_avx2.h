// Dot products of a block by AVX2; see byte_lanes.h.
#pragma once
#include "byte_lanes.h"
#include "lanes_avx2.h"

namespace stet::cpu {
namespace {

struct Avx2ByteLanes : Avx2Lanes {
  static I loadWords(const uint16_t* p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }

  // Pairs of products of a `q4` block stay in 16 bits: eight of at most 2*15*127 are 30480.
  template <class Format> static I begin(I start) { return Format::unsignedWeights ? splatI(0) : start; }
  template <class Format> static I addQuad(I acc, I weights, I x) {
    return Format::unsignedWeights ? addH(acc, _mm256_maddubs_epi16(weights, x)) : dotStored(acc, weights, x);
  }
  template <class Format> static I finish(I acc, I start) {
    return Format::unsignedWeights ? addI(pairSumsH(acc), start) : acc;
  }
};

struct Avx2ByteShape {
  static constexpr int rows = 2;
  static constexpr int tiles = 1;
  static constexpr int fewRowsTiles = 1;
};

}  // namespace
}  // namespace stet::cpu
