// kv_write: key (headSize) and value (headSize) -> Q15 blocks along the head dimension, at position `offset` of a block.
// No reduction. Both schedules. Writes no byte of another position, so positions may be written at once.
#pragma once
#include "kv_layout.inl.h"
#include "q15.inl.h"

namespace stet::cpu {
namespace {

template <class S> void kvWrite(const float* key, const float* value, int32_t headSize, int32_t, int32_t offset, std::byte* block) {
  const KvLayout layout(headSize);
  std::byte* group = block + layout.groupBytes() * static_cast<size_t>(offset / groupPositions);
  const int position = offset % groupPositions;
  constexpr int keyBias = S::operandBias;
  for (int b = 0; b < layout.blocks; b++) {
    const int count = headSize - b * blockElements;
    const int elements = count < blockElements ? count : blockElements;
    int8_t planes[2][blockElements];
    PlaneSums sums;
    const int keyExponent = quantizeToPlanes<S>(key + b * blockElements, elements, planes[0], planes[1], sums);
    for (int plane = 0; plane < 2; plane++) {
      std::byte* target = group + b * pairBytes + plane * planeBytes + position * 4;
      for (int d = 0; d < blockElements; d++) {
        target[d / 4 * 64 + d % 4] = static_cast<std::byte>(planes[plane][d] + keyBias);
      }
    }
    const int valueExponent = quantizeToPlanes<S>(value + b * blockElements, elements, planes[0], planes[1], sums);
    for (int plane = 0; plane < 2; plane++) {
      std::byte* target = group + layout.valueStart() + b * pairBytes + plane * planeBytes + position / 4 * 128 + position % 4;
      for (int d = 0; d < blockElements; d++) target[d * 4] = static_cast<std::byte>(planes[plane][d]);
    }
    group[layout.keyExponentStart() + b * groupPositions + position] = static_cast<std::byte>(keyExponent);
    group[layout.valueExponentStart() + b * groupPositions + position] = static_cast<std::byte>(valueExponent);
  }
}

}  // namespace
}  // namespace stet::cpu
