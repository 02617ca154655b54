// linear_q4: how `q4` weights are packed, for the byte linears of byte_linear.inl.h and byte_tiles.inl.h.
// Packed: [tile of 16 outputs][block of 32 inputs]{ [4 quads of inputs][16 outputs][4 inputs] bytes, inputs 0..15 in the low
// halves, 16..31 in the high ones, [16 outputs] bf16 scales, [16 outputs] bf16 centres }, the same on every instruction set.
// embed: row `token` -> output (columns) = fl((quant - 8) * scale + centre), the product exact.
#pragma once
#include "byte_linear.inl.h"

namespace stet::cpu {
namespace {

struct Q4Format {
  static constexpr bool unsignedWeights = true;
  static constexpr bool centres = true;
  static constexpr size_t quantBytes = 256;
  static constexpr size_t blockBytes = quantBytes + 4 * tileOutputs;

  static constexpr size_t blockStride = blockBytes;  // from one block of a tile to the next

  static size_t tileBytes(int32_t columns) { return static_cast<size_t>(ceilDiv(columns, blockElements)) * blockBytes; }

  static constexpr int steps = blockQuads / 2;
  static constexpr int stepQuads = 2;

  template <class S> struct Vector {
    const std::byte* nibbles;
    const uint16_t* scales;

    Vector() = default;
    Vector(const Matrix& matrix, int tile, int v) {
      nibbles = matrix.data + static_cast<size_t>(tile) * tileBytes(matrix.columns) + v * S::width * 4;
      scales = reinterpret_cast<const uint16_t*>(nibbles - v * S::width * 4 + quantBytes) + v * S::width;
    }
    template <class Emit> void quads(int b, int step, Emit emit) const {
      const auto bytes = S::loadI(nibbles + static_cast<size_t>(b) * blockBytes + step * 64);
      const auto nibble = S::splatI(0x0f0f0f0f);
      emit(0, S::andI(bytes, nibble));
      emit(1, S::andI(S::template shr<4>(bytes), nibble));
    }
    // Blocks [begin, end) as operands of tile instructions: signed, a byte a weight.
    void operands(int begin, int end, std::byte* operand) const {
      const auto bias = S::splatI(q4Bias * 0x01010101);
      for (int b = begin; b < end; b++, operand += blockElements * tileOutputs) {
        for (int step = 0; step < steps; step++) {
          quads(b, step, [&](int quad, typename S::I four) {
            S::storeI(reinterpret_cast<int32_t*>(operand + (step + quad * steps) * 64), S::subBytes(four, bias));
          });
        }
      }
    }
    typename S::F scale(int b) const { return loadBf16<S>(scales + static_cast<size_t>(b) * (blockBytes / 2)); }
    typename S::F centre(int b) const { return loadBf16<S>(scales + static_cast<size_t>(b) * (blockBytes / 2) + tileOutputs); }
  };
};

inline size_t q4MatrixBytes(int32_t rows, int32_t columns) {
  return static_cast<size_t>(ceilDiv(rows, tileOutputs)) * Q4Format::tileBytes(columns);
}

inline void packQ4(const MatrixSource& source, int32_t tileBegin, int32_t tileEnd, std::byte* packed) {
  const size_t blocks = static_cast<size_t>(ceilDiv(source.columns, blockElements));
  for (int tile = tileBegin; tile < tileEnd; tile++) {
    std::byte* target = packed + static_cast<size_t>(tile) * Q4Format::tileBytes(source.columns);
    std::memset(target, 0, Q4Format::tileBytes(source.columns));
    for (int lane = 0; lane < tileOutputs && tile * tileOutputs + lane < source.rows; lane++) {
      for (size_t b = 0; b < blocks; b++) {
        const size_t index = static_cast<size_t>(tile * tileOutputs + lane) * blocks + b;
        std::byte* block = target + b * Q4Format::blockBytes;
        for (int i = 0; i < blockElements / 2; i++) {
          block[i / 4 * 64 + lane * 4 + i % 4] = static_cast<std::byte>(source.nibbles[index * (blockElements / 2) + static_cast<size_t>(i)]);
        }
        uint16_t* scales = reinterpret_cast<uint16_t*>(block + Q4Format::quantBytes);
        scales[lane] = source.scales16[index];
        scales[tileOutputs + lane] = source.centres16[index];
      }
    }
  }
}

inline void embedQ4(const Matrix& matrix, int32_t token, float* output) {
  const Q4Format::Vector<ScalarLanes> weights(matrix, token / tileOutputs, token % tileOutputs);
  for (int k = 0; k < matrix.columns; k++) {
    const int b = k / blockElements;
    const int i = k % (blockElements / 2);
    const int byte = static_cast<int>(weights.nibbles[static_cast<size_t>(b) * Q4Format::blockBytes + static_cast<size_t>(i / 4 * 64 + i % 4)]);
    const int quant = k % blockElements < blockElements / 2 ? byte & 15 : byte >> 4;
    output[k] = static_cast<float>(quant - q4Bias) * weights.scale(b) + weights.centre(b);
  }
}

template <class S, class Shape>
constexpr ByteSet q4Set{{q4MatrixBytes, packQ4, embedQ4}, {byteInputBytes, prepareQ4Input<S>, byteLinear<S, Q4Format, Shape>}};

}  // namespace
}  // namespace stet::cpu
