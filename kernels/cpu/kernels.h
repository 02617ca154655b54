// What the runtime of packages/backend-cpu calls: one table of functions per instruction set. Kernels get raw pointers
// and ranges; they know no plan, no batch, no thread and no Node. Every pointer to packed or prepared data is 64-byte
// aligned. Shapes stand beside the arguments. `canonical` kernels follow docs/NUMERICS.md bit for bit; `fast` ones may
// reduce in any order, and their bits may depend on how many rows they are given.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stet::cpu {

enum class Schedule : int32_t { fast = 0, canonical = 1 };
enum class Format : int32_t { bf16 = 0, q8 = 1, q4 = 2 };
enum class Isa : int32_t { scalar = 0, avx2 = 1, avx512 = 2 };
// What the fast kernels of a table are: the quickest, or those of the study mode, which split their sums by the shape of the
// batch and store bf16, as libraries for GPUs do (batch_shape.h). Canonical kernels are the same in both.
enum class FastKernels : int32_t { native = 0, batchShaped = 1 };

// Largest head size of kvWrite and attention; the runtime refuses a plan above it.
constexpr int32_t maxHeadSize = 256;

// A packed weight matrix: y = W x, `rows` outputs of `columns` inputs.
struct Matrix {
  Format format;
  int32_t rows;
  int32_t columns;
  const std::byte* data;
};

// As the host delivers it, `blocks` being ceil(columns/32): bf16 bits (rows x columns); or q8 quants (rows x blocks x 32) with
// scales (rows x blocks) of 8 significant bits at most; or q4 nibbles (rows x blocks x 16; byte i holds element i in its low half and
// element i + 16 in its high half) with bf16 bits of scales and centres (rows x blocks).
struct MatrixSource {
  Format format;
  int32_t rows;
  int32_t columns;
  const uint16_t* bits;
  const int8_t* quants;
  const float* scales;
  const uint8_t* nibbles;
  const uint16_t* scales16;
  const uint16_t* centres16;
};

// Attention of `rowCount` consecutive rows of one sequence over one K/V head of one layer.
struct AttentionArgs {
  const float* query;      // row r: query + r*queryStride, headsPerKv heads of headSize side by side
  int64_t queryStride;     // floats
  int32_t rowCount;
  int32_t headsPerKv;
  int32_t headSize;        // unpadded
  int32_t batchTasks;      // calls that the whole batch makes of one layer; batch-shaped kernels alone read it
  int32_t firstPosition;   // of row 0; row r attends to positions up to firstPosition + r,
  int32_t windowSize;      // to all of them where this is 0, else to the last `windowSize`
  int32_t blockSize;       // positions in a block, a multiple of 16
  const int32_t* blocks;   // block table of the sequence; entries before the first row's window are not read
  const std::byte* kv;     // block b of this layer and head begins at kv + b*blockStride
  int64_t blockStride;     // bytes
  float scale;             // C = fl(65536*log2(e)/sqrt(headSize))
  float* output;           // like query
  int64_t outputStride;    // floats
  std::byte* scratch;      // attentionScratchBytes, 64-byte aligned
};

// The largest logit of a row and the largest of its others.
struct Argmax {
  int32_t index;        // the lowest among equals
  float logit;
  float runnerUpLogit;  // equal to `logit` where several are largest; -infinity where there is one logit
};

struct Kernels {
  const char* name;        // "scalar", "avx2", "avx512"
  // Features used beyond the instruction set's base, in words, e.g. "bf16 dot, vnni"; "" if none.
  const char* features;
  // Outputs of a linear are computed in tiles of this many; work is split at tiles.
  int32_t tileRows;

  size_t (*matrixBytes)(Format, int32_t rows, int32_t columns);
  // Packs the tiles [tileBegin, tileEnd).
  void (*packMatrix)(const MatrixSource&, int32_t tileBegin, int32_t tileEnd, std::byte* packed);
  void (*embed)(const Matrix&, Schedule, int32_t token, float* output);  // output (columns)

  // The input of a linear, prepared once a row: rounded, split or quantized as format and schedule ask.
  size_t (*inputBytes)(Format, Schedule, int32_t columns);     // a multiple of 64
  void (*prepareInput)(Format, Schedule, const float* input, int32_t columns, std::byte* prepared);
  // output row r at output + r*outputStride, columns tileBegin*tileRows .. min(tileEnd*tileRows, rows) of it. bias (rows) or null.
  // batchRows: rows of the whole batch, of which a call may have some; batch-shaped kernels alone read it.
  void (*linear)(const Matrix&, Schedule, const std::byte* prepared, int32_t rowCount, int32_t batchRows, const float* bias,
                 int32_t tileBegin, int32_t tileEnd, float* output, int64_t outputStride);

  // groupCount groups of `width` elements side by side, each normalized by itself; weight (width).
  void (*rmsNorm)(Schedule, const float* input, const float* weight, int32_t width, int32_t groupCount, float scaledEpsilon,
                  float rootWidth, float* output);
  // In place; cosine and sine (headSize/2) are the tables' row of the position.
  void (*rope)(Schedule, float* row, int32_t headCount, int32_t headSize, const float* cosine, const float* sine);
  void (*swiglu)(Schedule, const float* gate, const float* up, int32_t count, float* output);
  void (*add)(Schedule, const float* left, const float* right, int32_t count, float* output);

  // K/V of one head in one block, keys and values, both schedules alike.
  size_t (*kvBlockBytes)(int32_t headSize, int32_t blockSize);  // a multiple of 64
  void (*kvWrite)(const float* key, const float* value, int32_t headSize, int32_t blockSize, int32_t offset, std::byte* block);
  size_t (*attentionScratchBytes)(int32_t headSize, int32_t headsPerKv, int32_t contextLength);
  void (*attention)(Schedule, const AttentionArgs&);

  Argmax (*argmax)(const float* logits, int32_t count);         // count >= 1
};

// Null where this machine or this build lacks the instruction set; `reason` then says which feature is missing.
const Kernels* kernelsFor(Isa isa, FastKernels fast, const char** reason);

}  // namespace stet::cpu
