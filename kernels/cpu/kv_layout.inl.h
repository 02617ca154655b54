// K/V of one head in one block of positions: groups of 16 positions, each with its keys, its values and their exponents.
//   keys    [block of 32 dimensions][plane high, low][8 quads of dimensions][16 positions][4 dimensions]
//   values  [block of 32 dimensions][plane high, low][4 quads of positions][32 dimensions][4 positions]
//   exponents of the keys [block of 32 dimensions][16 positions], of the values alike
// so that one vector load feeds the byte dot product of 16 positions, or of 16 dimensions. Key bytes carry the
// lanes' operand bias; values do not. The head size is padded with zeros to a multiple of 32.
#pragma once
#include <cstddef>

#include "kernels.h"
#include "primitives.inl.h"

namespace stet::cpu {
namespace {

constexpr int groupPositions = 16;
constexpr int planeBytes = 512;               // of 32 dimensions by 16 positions
constexpr int pairBytes = 2 * planeBytes;     // both planes
constexpr int maxPaddedHead = maxHeadSize;

struct KvLayout {
  int blocks;  // of 32 dimensions

  explicit KvLayout(int headSize) : blocks(ceilDiv(headSize, blockElements)) {}
  size_t valueStart() const { return static_cast<size_t>(blocks) * pairBytes; }
  size_t keyExponentStart() const { return 2 * valueStart(); }
  size_t valueExponentStart() const { return keyExponentStart() + static_cast<size_t>(blocks) * groupPositions; }
  size_t groupBytes() const { return (valueExponentStart() + static_cast<size_t>(blocks) * groupPositions + 63) / 64 * 64; }
};

inline size_t kvBlockBytes(int32_t headSize, int32_t blockSize) {
  return KvLayout(headSize).groupBytes() * static_cast<size_t>(blockSize / groupPositions);
}

}  // namespace
}  // namespace stet::cpu
