// One forward pass as a job of the pool: the stages of the program over the rows of both batches, grouped by the kernels
// that run them.
#pragma once
#include <atomic>
#include <cstdint>

#include "model.h"

namespace stet::cpu {

// One batch of a step. Columns as the port's Batch has them; results as its BatchResult.
struct BatchView {
  Schedule schedule;
  int32_t rowCount;
  int32_t sequenceCount;
  int32_t outputCount;
  const int32_t* tokens;
  const int32_t* positions;
  const int32_t* rowStarts;
  const int32_t* blockStarts;
  const int32_t* blocks;
  const int32_t* outputRows;
  const int32_t* outputKinds;  // 0 arg-max, 1 arg-max and logits
  int32_t* argmax;
  float* argmaxLogit;
  float* runnerUpLogit;
  float* logits;
  // Filled in by the step.
  int32_t group;
  int32_t firstRow;  // in the buffers
};

// The rows of a step that the same kernels run, be they of one batch or of both: consecutive in the buffers, and a slot's
// area has them from 0 on. So weights that both batches use are used for all their rows at once.
struct RowGroup {
  Schedule kernels;
  int32_t firstRow;     // in the buffers
  int32_t rowCount;
  int32_t firstOutput;  // in the workspace's output rows
  int32_t outputCount;
  int32_t segmentCount;  // of the workspace's segments
};

// Output rows that the head's linear takes together: those of a group that want an arg-max alone, or those of a batch
// that want logits.
struct OutputSpan {
  int32_t group;
  int32_t firstOutput;  // in the workspace's output rows
  int32_t count;
  float* logits;  // (count x vocabSize), null where an arg-max alone is wanted
};

struct RowRange {
  int32_t first;
  int32_t count;
};

// Tiles [begin, end) of a unit of a linear stage, or of the head, whose unit is 0.
struct TileRange {
  int32_t unit;
  int32_t begin;
  int32_t end;
};

// A unit's tiles as they are split: what one costs for a set of rows, and how many a task takes at most.
struct UnitTiles {
  int32_t count;
  int32_t mostInRange;
  double nanosecondsEach;
};

// Row sets of two batches of MAX_ROWS rows (src/load.ts) in one group.
constexpr int32_t kMaxSets = 128;
// Ranges of tiles of one stage.
constexpr int32_t kMaxRanges = kMaxTasks / kMaxSets;

class StepJob : public Job {
 public:
  explicit StepJob(Model& model) : model_(model) {}

  // Sets up a step. Pointers must stay valid until the pool has run it. `fast` and `canonical` may be null, not both.
  void begin(const BatchView* canonical, const BatchView* fast);
  // Ends the step at its next stage; its results are then void.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  int32_t advance() override;
  void runTask(int32_t task, int32_t thread) override;

 private:
  // Whether a task reads its weights once, or again for further rows, for which they must stay in a cache.
  enum class Reading { once, again };

  // How the current section splits its work.
  struct Split {
    int32_t items = 0;  // of the section
    int32_t itemsPerTask = 1;
    // Of a linear: a task is one range for one set of rows.
    int32_t sets = 1;
    int32_t rangeCount = 0;
    TileRange ranges[kMaxRanges] = {};
  };

  const Stage& stage() const;
  bool inLogitsRows() const { return phase_ + 1 == static_cast<int32_t>(model_.program.stages.size()); }
  int32_t setUp();
  int32_t splitItems(int64_t items, double nanosecondsEach);

  // rows.cpp
  int32_t setUpRows();
  void runRows(const Stage& stage, int32_t begin, int32_t end);
  void runRowOp(const RowOp& op, const BatchView& batch, const RowGroup& group, int32_t row);
  // linear.cpp
  int32_t setUpLinear();
  void runLinear(int32_t task);
  void runUnit(const LinearUnit& unit, const TileRange& range, int32_t set);
  UnitTiles tilesOf(const WeightShape& weight, int32_t linearCount, int32_t setRows, Reading reading) const;
  int32_t splitTiles(const UnitTiles* units, int32_t unitCount, int32_t sets);
  // attention.cpp
  void makeSegments();
  int32_t setUpAttention();
  void runAttention(int32_t begin, int32_t end, int32_t thread);
  // logits.cpp
  void orderOutputs();
  int32_t takeOutputs(const BatchView& batch, int32_t kind, int32_t at);
  void addSpan(int32_t group, int32_t firstOutput, int32_t count, float* logits);
  int32_t setUpLogitsRows();
  void runLogitsRows(int32_t begin, int32_t end);
  int32_t setUpLogits();
  void runLogits(int32_t task, int32_t thread);
  void runLogitsSpan(const OutputSpan& span, RowRange rows, int32_t rangeIndex, int32_t thread);
  void finishArgmax();

  const BatchView& batchOfRow(int32_t row) const { return batches_[row < batches_[0].rowCount ? 0 : batchCount_ - 1]; }
  // Of `count` rows those that set `set` of a linear takes.
  static RowRange rowsOfSet(int32_t count, int32_t set);

  Model& model_;
  BatchView batches_[2] = {};  // canonical first
  int32_t batchCount_ = 0;
  RowGroup groups_[2] = {};
  int32_t groupCount_ = 0;
  OutputSpan spans_[4] = {};
  int32_t spanCount_ = 0;
  int32_t rowCount_ = 0;
  int32_t outputCount_ = 0;
  int32_t segmentCount_ = 0;
  int32_t phase_ = -1;  // stage; the last one has two phases, its rows and its linear
  Split split_;
  std::atomic<bool> cancelled_{false};
};

// What sections cost, roughly; a task should take microseconds, so that claiming it costs little.
constexpr double kTaskNanoseconds = 2500;
// Tasks a thread gets of a large section, so that threads of unequal speed end together.
constexpr int32_t kTasksPerThread = 6;

}  // namespace stet::cpu
