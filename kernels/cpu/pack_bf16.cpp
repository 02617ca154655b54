// The packed form of bf16 weights, the same for every instruction set and schedule:
//   [tile of 16 outputs][pair of inputs][16 outputs][2 inputs] bf16, inputs padded with zeros to a multiple of 32.
// One 64-byte line holds two inputs of 16 outputs: shifted and masked it is f32 for FMA, as it stands it is the operand
// of the bf16 dot instruction, and 16 lines are the right-hand tile of the tile instructions.
// embed: row `token` -> output (columns), the values themselves.
#include "linear_bf16.inl.h"

namespace stet::cpu {
namespace {

size_t matrixBytes(int32_t rows, int32_t columns) {
  return static_cast<size_t>(ceilDiv(rows, tileOutputs)) * bf16TileWords(columns) * sizeof(uint32_t);
}

void packMatrix(const MatrixSource& source, int32_t tileBegin, int32_t tileEnd, std::byte* packed) {
  const int columns = source.columns;
  const size_t tileWords = bf16TileWords(columns);
  for (int tile = tileBegin; tile < tileEnd; tile++) {
    uint32_t* words = reinterpret_cast<uint32_t*>(packed) + static_cast<size_t>(tile) * tileWords;
    std::memset(words, 0, tileWords * sizeof(uint32_t));
    for (int lane = 0; lane < tileOutputs && tile * tileOutputs + lane < source.rows; lane++) {
      const uint16_t* row = source.bits + static_cast<size_t>(tile * tileOutputs + lane) * static_cast<size_t>(columns);
      for (int k = 0; k < columns; k++) words[k / 2 * tileOutputs + lane] |= static_cast<uint32_t>(row[k]) << (k % 2 * 16);
    }
  }
}

void embed(const Matrix& matrix, int32_t token, float* output) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(matrix.data) +
                          static_cast<size_t>(token / tileOutputs) * bf16TileWords(matrix.columns) + token % tileOutputs;
  for (int k = 0; k < matrix.columns; k++) {
    const uint32_t word = words[k / 2 * tileOutputs];
    output[k] = ScalarLanes::fromBits(static_cast<int32_t>(k % 2 ? word & 0xffff0000u : word << 16));
  }
}

}  // namespace

const PackKernel bf16Pack{matrixBytes, packMatrix, embed};

}  // namespace stet::cpu
