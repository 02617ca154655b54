// The prepared input row of the byte linears (`q8`, `q4`): Q15 planes and what joins the blocks' sums.
// A segment's sum is kept in units of 2^exponent of the block that was added last, so that a block's terms need no factor
// of their own: every term, and the sum, is the one of docs/NUMERICS.md times a power of two, which rounds alike. Sums
// are multiples of 2^-94 and below 2^53 and exponents within -40..20, so no sum leaves the normal range.
// Row, in two halves of equal size, so that planes of consecutive rows are equally far apart:
//   [block][32] int8 high plane, [block] f32 rescale, [block] i32 highStart, [segment] f32 unit;
//   [block][32] int8 low plane, [block] f32 centreFactor, `q4` alone, [block] i32 lowStart.
#pragma once
#include <cstring>

#include "q15.inl.h"

namespace stet::cpu {
namespace {

constexpr int segmentBlocks = 8;
// As an f32 the i32 `magicBits + n` is magic + n, for |n| < 2^22. So a sum that starts at magicBits needs no conversion
// where a multiply-add is fused: (magic + n)*scale - magic*scale is n*scale, which is exact.
constexpr int32_t magicBits = 0x4b400000;
constexpr float magic = 12582912.0f;
// A `q4` weight is stored as 8 more than the integer that stands in sums.
constexpr int32_t q4Bias = 8;
template <class S> constexpr int32_t sumStart = S::width > 1 ? magicBits : 0;

struct ByteInput {
  int blocks;
  size_t half;  // bytes

  // Halves have an odd number of cache lines, so that a column of rows does not fall into few sets of a cache.
  explicit ByteInput(int32_t columns) : blocks(ceilDiv(columns, blockElements)), half((static_cast<size_t>(blocks) * 40 + static_cast<size_t>(ceilDiv(blocks, segmentBlocks)) * 4 + 63) / 64 * 64 | 64) {}
  size_t bytes() const { return 2 * half; }
  template <class Byte> Byte* plane(Byte* row, int index) const { return row + static_cast<size_t>(index) * half; }
  // 2^(exponent of the block before - its own); 0 for the first of a segment, which drops the sum of the one before.
  template <class Byte> Byte* rescale(Byte* row) const { return row + static_cast<size_t>(blocks) * blockElements; }
  // Where a block's sums of a plane start: minus what the stored weights are above their integers, times the plane's sum;
  // the high one on top of sumStart.
  template <class Byte> Byte* start(Byte* row, int index) const { return plane(rescale(row), index) + static_cast<size_t>(blocks) * 4; }
  // 2^exponent of a segment's last block.
  template <class Byte> Byte* unit(Byte* row) const { return start(row, 0) + static_cast<size_t>(blocks) * 4; }
  // r16(128*sum of the high plane + sum of the low plane) * 2^-7.
  template <class Byte> Byte* centreFactor(Byte* row) const { return plane(rescale(row), 1); }
};

inline size_t byteInputBytes(int32_t columns) { return ByteInput(columns).bytes(); }

// Writes 32 bytes to each plane; returns the block's exponent.
template <class S> int quantizeByteBlock(const float* x, int count, std::byte* high, std::byte* low, PlaneSums& sums) {
  return quantizeToPlanes<S>(x, count, reinterpret_cast<int8_t*>(high), reinterpret_cast<int8_t*>(low), sums);
}

// For weights that are stored as `bias` more than their integers. `finish(b, sums)` writes what else belongs to the format.
template <class S, class Finish>
void prepareBlocks(const ByteInput& layout, const float* input, int32_t columns, int32_t bias, std::byte* row, Finish finish) {
  float* rescale = reinterpret_cast<float*>(layout.rescale(row));
  int32_t* highStart = reinterpret_cast<int32_t*>(layout.start(row, 0));
  int32_t* lowStart = reinterpret_cast<int32_t*>(layout.start(row, 1));
  float* unit = reinterpret_cast<float*>(layout.unit(row));
  int before = 0;
  for (int b = 0; b < layout.blocks; b++) {
    const int first = b * blockElements;
    const int count = columns - first;
    PlaneSums sums;
    const int exponent = quantizeByteBlock<S>(input + first, count < blockElements ? count : blockElements, layout.plane(row, 0) + first,
                                              layout.plane(row, 1) + first, sums);
    rescale[b] = b % segmentBlocks == 0 ? 0.0f : pow2(before - exponent);
    if ((b + 1) % segmentBlocks == 0 || b + 1 == layout.blocks) unit[b / segmentBlocks] = pow2(exponent);
    before = exponent;
    highStart[b] = sumStart<S> - bias * sums.high;
    lowStart[b] = -bias * sums.low;
    finish(b, sums);
  }
}

template <class S> void prepareQ8Input(const float* input, int32_t columns, std::byte* row) {
  prepareBlocks<S>(ByteInput(columns), input, columns, S::operandBias, row, [](int, const PlaneSums&) {});
}

template <class S> void prepareQ4Input(const float* input, int32_t columns, std::byte* row) {
  const ByteInput layout(columns);
  float* factor = reinterpret_cast<float*>(layout.centreFactor(row));
  prepareBlocks<S>(layout, input, columns, q4Bias, row, [&](int b, const PlaneSums& sums) {
    factor[b] = r16<ScalarLanes>(static_cast<float>(128 * sums.high + sums.low)) * 0.0078125f;
  });
}

}  // namespace
}  // namespace stet::cpu
