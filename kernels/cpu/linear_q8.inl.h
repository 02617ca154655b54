// linear_q8: how `q8` weights are packed, for the byte linears of byte_linear.inl.h and byte_tiles.inl.h.
// Packed: [tile of 16 outputs]{ [block of 32 inputs][8 quads of inputs][16 outputs][4 inputs] int8 with the lanes' operand bias,
// [block][16 outputs] bf16 scales, whose significant bits fit, zeros up to a multiple of 64 bytes }.
// embed: row `token` -> output (columns) = quant * scale, exact.
#pragma once
#include "byte_linear.inl.h"

namespace stet::cpu {
namespace {

struct Q8Format {
  static constexpr bool unsignedWeights = false;
  static constexpr bool centres = false;
  static constexpr size_t quantBytes = 512;  // of a block

  static constexpr size_t blockStride = quantBytes;  // from one block of a tile to the next

  static size_t tileBytes(int32_t columns) {
    const size_t blocks = static_cast<size_t>(ceilDiv(columns, blockElements));
    return blocks * quantBytes + roundUp64(blocks * tileOutputs * 2);
  }

  static constexpr int steps = blockQuads;
  static constexpr int stepQuads = 1;

  template <class S> struct Vector {
    const std::byte* quants;
    const uint16_t* scales;

    Vector() = default;
    Vector(const Matrix& matrix, int tile, int v) {
      const std::byte* begin = matrix.data + static_cast<size_t>(tile) * tileBytes(matrix.columns);
      quants = begin + v * S::width * 4;
      scales = reinterpret_cast<const uint16_t*>(begin + static_cast<size_t>(ceilDiv(matrix.columns, blockElements)) * quantBytes) + v * S::width;
    }
    template <class Emit> void quads(int b, int step, Emit emit) const {
      emit(0, S::loadI(quants + static_cast<size_t>(b) * quantBytes + step * 64));
    }
    // Blocks [begin, end) as operands of tile instructions: signed.
    void operands(int begin, int end, std::byte* operand) const {
      const auto bias = S::splatI(static_cast<int32_t>(0x80808080u));
      const std::byte* block = quants + static_cast<size_t>(begin) * quantBytes;
      const size_t bytes = static_cast<size_t>(end - begin) * quantBytes;
      for (size_t i = 0; i < bytes; i += 64) {
        S::storeI(reinterpret_cast<int32_t*>(operand + i), S::xorI(S::loadI(block + i), bias));
      }
    }
    typename S::F scale(int b) const { return loadBf16<S>(scales + b * tileOutputs); }
  };
};

inline size_t q8MatrixBytes(int32_t rows, int32_t columns) {
  return static_cast<size_t>(ceilDiv(rows, tileOutputs)) * Q8Format::tileBytes(columns);
}

inline uint16_t bf16Bits(float x) { return static_cast<uint16_t>(static_cast<uint32_t>(ScalarLanes::bits(x)) >> 16); }

template <class S> void packQ8(const MatrixSource& source, int32_t tileBegin, int32_t tileEnd, std::byte* packed) {
  const size_t blocks = static_cast<size_t>(ceilDiv(source.columns, blockElements));
  const size_t tileBytes = Q8Format::tileBytes(source.columns);
  for (int tile = tileBegin; tile < tileEnd; tile++) {
    std::byte* quants = packed + static_cast<size_t>(tile) * tileBytes;
    std::byte* scales = quants + blocks * Q8Format::quantBytes;
    std::memset(scales, 0, tileBytes - blocks * Q8Format::quantBytes);
    for (int lane = 0; lane < tileOutputs; lane++) {
      const int output = tile * tileOutputs + lane;
      const bool inside = output < source.rows;
      for (size_t b = 0; b < blocks; b++) {
        const size_t index = inside ? static_cast<size_t>(output) * blocks + b : 0;
        if (inside) reinterpret_cast<uint16_t*>(scales)[b * tileOutputs + static_cast<size_t>(lane)] = bf16Bits(source.scales[index]);
        for (int i = 0; i < blockElements; i++) {
          const int quant = inside ? source.quants[index * blockElements + static_cast<size_t>(i)] : 0;
          quants[b * Q8Format::quantBytes + static_cast<size_t>(i / 4 * 64 + lane * 4 + i % 4)] = static_cast<std::byte>(quant + S::operandBias);
        }
      }
    }
  }
}

template <class S> void embedQ8(const Matrix& matrix, int32_t token, float* output) {
  const Q8Format::Vector<ScalarLanes> weights(matrix, token / tileOutputs, token % tileOutputs);
  for (int k = 0; k < matrix.columns; k++) {
    const int i = k % blockElements;
    const std::byte* block = weights.quants + static_cast<size_t>(k / blockElements) * Q8Format::quantBytes;
    const int quant = static_cast<int8_t>(static_cast<uint8_t>(block[i / 4 * 64 + i % 4]) - S::operandBias);
    output[k] = static_cast<float>(quant) * weights.scale(k / blockElements);
  }
}

template <class S, class Shape>
constexpr ByteSet q8Set{{q8MatrixBytes, packQ8<S>, embedQ8<S>}, {byteInputBytes, prepareQ8Input<S>, byteLinear<S, Q8Format, Shape>}};

}  // namespace
}  // namespace stet::cpu
