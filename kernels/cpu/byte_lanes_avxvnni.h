// Dot products of a block by AVX-VNNI, eight outputs at once; see byte_lanes.h.
#pragma once
#include "byte_lanes_avx2.h"

namespace stet::cpu {
namespace {

struct AvxVnniByteLanes : Avx2ByteLanes {
  static constexpr int operandBias = 128;

  template <class Format> static I begin(I start) { return start; }
  template <class Format> static I addQuad(I acc, I weights, I x) { return _mm256_dpbusd_avx_epi32(acc, weights, x); }
  template <class Format> static I finish(I acc, I) { return acc; }
};

}  // namespace
}  // namespace stet::cpu
