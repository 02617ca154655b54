// How the files of one instruction set hand their kernels to kernels.cpp, which joins them to the table of kernels.h.
#pragma once
#include "kernels.h"

namespace stet::cpu {

constexpr int32_t tileOutputs = 16;  // outputs of a tile of every packed matrix

// A linear of one format and schedule.
struct LinearKernel {
  size_t (*inputBytes)(int32_t columns);
  void (*prepareInput)(const float* input, int32_t columns, std::byte* prepared);
  void (*run)(const Matrix&, const std::byte* prepared, int32_t rowCount, const float* bias, int32_t tileBegin, int32_t tileEnd,
              float* output, int64_t outputStride);
};

// A linear of the batch-shaped study mode, on packed bf16 weights.
struct BatchShapedLinear {
  size_t (*inputBytes)(int32_t columns);
  void (*prepareInput)(const float* input, int32_t columns, std::byte* prepared);
  void (*run)(const Matrix&, const std::byte* prepared, int32_t rowCount, int32_t batchRows, const float* bias, int32_t tileBegin,
              int32_t tileEnd, float* output, int64_t outputStride);
};

// How a format is packed.
struct PackKernel {
  size_t (*matrixBytes)(int32_t rows, int32_t columns);
  void (*packMatrix)(const MatrixSource&, int32_t tileBegin, int32_t tileEnd, std::byte* packed);
  void (*embed)(const Matrix&, int32_t token, float* output);
};

// A byte format: its packed form, and its linear, the same in both schedules.
struct ByteSet {
  PackKernel pack;
  LinearKernel linear;
};

struct ElementSet {
  void (*rmsNorm)(const float* input, const float* weight, int32_t width, int32_t groupCount, float scaledEpsilon, float rootWidth,
                  float* output);
  void (*rope)(float* row, int32_t headCount, int32_t headSize, const float* cosine, const float* sine);
  void (*swigluFast)(const float* gate, const float* up, int32_t count, float* output);
  void (*swigluCanonical)(const float* gate, const float* up, int32_t count, float* output);
  void (*add)(const float* left, const float* right, int32_t count, float* output);
  Argmax (*argmax)(const float* logits, int32_t count);
  void (*roundBf16)(float* row, int32_t count);
};

struct AttentionSet {
  size_t (*kvBlockBytes)(int32_t headSize, int32_t blockSize);
  void (*kvWrite)(const float* key, const float* value, int32_t headSize, int32_t blockSize, int32_t offset, std::byte* block);
  size_t (*attentionScratchBytes)(int32_t headSize, int32_t headsPerKv, int32_t contextLength);
  void (*attention)(Schedule, const AttentionArgs&);
  size_t (*batchShapedScratchBytes)();
  void (*batchShapedAttention)(const AttentionArgs&);
};

// bf16 weights are packed alike on every instruction set.
extern const PackKernel bf16Pack;
// Packs the bf16 values nearest to the weights of a byte format as bf16Pack packs bf16 weights.
void packRounded(const MatrixSource&, int32_t tileBegin, int32_t tileEnd, std::byte* packed);

extern const ElementSet scalarElements, avx2Elements, avx512Elements;
extern const LinearKernel scalarBf16, avx2Bf16, avx512Bf16;
extern const LinearKernel avx2Bf16Fast, avx512Bf16Fast, dotBf16, amxBf16;  // fast alone
extern const BatchShapedLinear scalarBatchShaped, avx2BatchShaped, avx512BatchShaped;
extern const ByteSet scalarQ8, avx2Q8, avxVnniQ8, vnniQ8, amxQ8;
extern const ByteSet scalarQ4, avx2Q4, avxVnniQ4, vnniQ4, amxQ4;
extern const AttentionSet scalarAttention, avx2Attention, vnniAttention, amxAttention;

}  // namespace stet::cpu
