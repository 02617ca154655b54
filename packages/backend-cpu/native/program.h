// A plan as src/program.ts compiles it: shapes, and stages of operations. Integers only; weights come later.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels.h"

namespace stet::cpu {

struct Shape {
  int32_t vocabSize;
  int32_t contextLength;
  int32_t layerCount;
  int32_t kvHeadCount;
  int32_t headSize;
  int32_t blockSize;
  int32_t blockCount;
  int32_t maxRows;
};

struct WeightShape {
  enum class Kind : int32_t { vector = 0, matrix = 1 } kind;
  Format format;    // of a matrix
  int32_t rows;     // size of a vector
  int32_t columns;  // 1 for a vector
};

// Where the prepared input of linears is kept: `columns` inputs in the form that `format` asks for.
struct Slot {
  Format format;
  int32_t columns;
};

struct NormConstants {
  float scaledEpsilon;
  float rootWidth;
};

// An operation on one row that needs nothing of the other rows.
struct RowOp {
  enum class Kind : int32_t { embed = 0, rmsNorm = 1, prepare = 2, rope = 3, kvWrite = 4, swiglu = 5, add = 6 } kind;
  // embed: table, output · rmsNorm: input, weight, constants, output, groups · prepare: buffer, slot
  // rope: buffer, heads, rope · kvWrite: layer, key, value · swiglu: gate, up, output · add: left, right, output
  int32_t a, b, c, d, e;
};

struct Linear {
  int32_t weight;
  int32_t bias;  // -1 for none
  int32_t slot;
  int32_t output;
};

// One linear, or the two of a gated layer with the swiglu of their outputs: one tile range of both is one task.
struct LinearUnit {
  int32_t linearCount;
  Linear linears[2];
  int32_t swigluOutput;  // buffer, -1 for none
};

struct AttentionOp {
  int32_t layer;
  int32_t query;
  int32_t headCount;
  int32_t windowSize;  // positions, 0 for the whole context
  int32_t output;
};

struct LogitsOp {
  int32_t input;
  int32_t norm;
  int32_t constants;
  int32_t weight;
  int32_t bias;
};

// Units of one stage at most.
constexpr int32_t kMaxUnits = 8;

// Operations whose work is shared by rows, by tiles or by heads. A stage begins when the one before is finished.
struct Stage {
  enum class Kind : int32_t { rows = 0, linear = 1, attention = 2, logits = 3 } kind;
  std::vector<RowOp> rowOps;
  std::vector<LinearUnit> units;
  std::vector<AttentionOp> attentions;
  LogitsOp logits;
};

struct Program {
  Shape shape;
  // Whose kernels run the batches of the fast schedule: canonical ones where both schedules are one.
  Schedule fastKernels;
  std::vector<int32_t> bufferWidths;
  std::vector<WeightShape> weights;
  std::vector<Slot> slots;
  std::vector<NormConstants> constants;
  int32_t ropeCount;
  float attentionScale;
  std::vector<Stage> stages;
};

// Layouts: see src/program.ts. Throws std::runtime_error where the words do not make a program.
Program decodeProgram(const int32_t* words, size_t wordCount, const float* constants, size_t constantCount);

}  // namespace stet::cpu
