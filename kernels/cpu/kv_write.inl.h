// kv_write: key (headSize) and value (headSize) -> Q15 blocks along the head dimension, at position `offset` of a block.
// No reduction. Both schedules. Writes no byte of another position, so positions may be written at once.
#pragma once
#include "kv_layout.inl.h"
#include "q15.inl.h"

namespace stet::cpu {
namespace {

// Quads of dimensions of one position, 64 bytes apart.
template <class S> void storeKey(const int8_t* plane, std::byte* target) {
  for (int quad = 0; quad < blockElements / 4; quad++) {
    uint32_t bytes;
    std::memcpy(&bytes, plane + quad * 4, sizeof bytes);
    bytes ^= S::operandBias * 0x01010101u;  // adds 128 to each byte, modulo 256
    std::memcpy(target + quad * 64, &bytes, sizeof bytes);
  }
}

template <class S> void kvWrite(const float* key, const float* value, int32_t headSize, int32_t, int32_t offset, std::byte* block) {
  static_assert(S::operandBias == 0 || S::operandBias == 128);
  const KvLayout layout(headSize);
  std::byte* group = block + layout.groupBytes() * static_cast<size_t>(offset / groupPositions);
  const int position = offset % groupPositions;
  for (int b = 0; b < layout.blocks; b++) {
    const int first = b * blockElements;
    const int elements = headSize - first < blockElements ? headSize - first : blockElements;
    int8_t high[blockElements], low[blockElements];
    PlaneSums sums;
    const int keyExponent = quantizeToPlanes<S>(key + first, elements, high, low, sums);
    std::byte* keys = group + b * pairBytes + position * 4;
    storeKey<S>(high, keys);
    storeKey<S>(low, keys + planeBytes);
    std::byte* values = group + layout.valueStart() + b * pairBytes + position / 4 * 128 + position % 4;
    const int valueExponent = quantizeBlock<S>(value + first, elements, [&](int g, typename S::I h, typename S::I l) {
      S::storeEveryFourth(values + g * S::width * 4, h);
      S::storeEveryFourth(values + planeBytes + g * S::width * 4, l);
    });
    group[layout.keyExponentStart() + b * groupPositions + position] = static_cast<std::byte>(keyExponent);
    group[layout.valueExponentStart() + b * groupPositions + position] = static_cast<std::byte>(valueExponent);
  }
}

}  // namespace
}  // namespace stet::cpu
