// Weights of byte formats for the batch-shaped study mode: the bf16 value nearest to each, ties to even, as the kernels of GPUs
// make them in registers before they multiply, in the packed form of bf16 weights.
#include <cstring>

#include "linear_bf16.inl.h"
#include "round_bf16.inl.h"
#include "sets.h"

namespace stet::cpu {
namespace {

float bf16Value(uint16_t bits) { return ScalarLanes::fromBits(static_cast<int32_t>(static_cast<uint32_t>(bits) << 16)); }

// Input k of output `output`, as embed has it.
float weightAt(const MatrixSource& source, size_t output, int32_t k) {
  const size_t block = output * static_cast<size_t>(ceilDiv(source.columns, blockElements)) + static_cast<size_t>(k / blockElements);
  const int i = k % blockElements;
  if (source.format == Format::q8) return static_cast<float>(source.quants[block * blockElements + static_cast<size_t>(i)]) * source.scales[block];
  const int byte = source.nibbles[block * (blockElements / 2) + static_cast<size_t>(i % (blockElements / 2))];
  const int quant = i < blockElements / 2 ? byte & 15 : byte >> 4;
  return static_cast<float>(quant - 8) * bf16Value(source.scales16[block]) + bf16Value(source.centres16[block]);
}

}  // namespace

void packRounded(const MatrixSource& source, int32_t tileBegin, int32_t tileEnd, std::byte* packed) {
  const size_t tileWords = bf16TileWords(source.columns);
  for (int tile = tileBegin; tile < tileEnd; tile++) {
    uint32_t* words = reinterpret_cast<uint32_t*>(packed) + static_cast<size_t>(tile) * tileWords;
    std::memset(words, 0, tileWords * sizeof(uint32_t));
    for (int lane = 0; lane < tileOutputs && tile * tileOutputs + lane < source.rows; lane++) {
      for (int k = 0; k < source.columns; k++) {
        const float weight = toBf16<ScalarLanes>(weightAt(source, static_cast<size_t>(tile * tileOutputs + lane), k));
        words[k / 2 * tileOutputs + lane] |= static_cast<uint32_t>(ScalarLanes::bits(weight)) >> 16 << (k % 2 * 16);
      }
    }
  }
}

}  // namespace stet::cpu
