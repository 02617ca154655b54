// Dot products of a block by VNNI, sixteen outputs at once; see byte_lanes.h.
#pragma once
#include "byte_lanes.h"
#include "lanes_avx512vnni.h"

namespace stet::cpu {
namespace {

struct VnniByteLanes : VnniLanes {
  static I xorI(I a, I b) { return _mm512_xor_si512(a, b); }
  static I subBytes(I a, I b) { return _mm512_sub_epi8(a, b); }
  static I loadWords(const uint16_t* p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }

  template <class Format> static I begin(I start) { return start; }
  template <class Format> static I addQuad(I acc, I weights, I x) { return dotStored(acc, weights, x); }
  template <class Format> static I finish(I acc, I) { return acc; }
};

struct VnniByteShape {
  static constexpr int rows = 4;
  static constexpr int tiles = 2;
  static constexpr int fewRowsTiles = 4;
};

}  // namespace
}  // namespace stet::cpu
