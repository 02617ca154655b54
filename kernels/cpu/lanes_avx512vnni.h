// The sixteen lanes of AVX-512 with the byte dot products of VNNI. Its first operand is unsigned, so stored int8 values
// (weights of `q8`, keys) carry a bias of 128 and sums start at -128 times the sum of the other operand.
#pragma once
#include "lanes_avx512.h"

namespace stet::cpu {
namespace {

struct VnniLanes : Avx512Lanes {
  static constexpr int operandBias = 128;
  static I dotStored(I acc, I a, I b) { return _mm512_dpbusd_epi32(acc, a, b); }
  static I dotUnsigned(I acc, I a, I b) { return _mm512_dpbusd_epi32(acc, a, b); }
};

}  // namespace
}  // namespace stet::cpu
