#include "step.h"

#include <algorithm>
#include <cmath>

namespace stet::cpu {

void StepJob::begin(const BatchView* canonical, const BatchView* fast) {
  batchCount_ = 0;
  groupCount_ = 0;
  rowCount_ = 0;
  outputCount_ = 0;
  for (const BatchView* view : {canonical, fast}) {
    if (!view) continue;
    const Schedule kernels = view->schedule == Schedule::fast ? model_.program.fastKernels : Schedule::canonical;
    if (groupCount_ == 0 || groups_[groupCount_ - 1].kernels != kernels) {
      groups_[groupCount_++] = {kernels, rowCount_, 0, outputCount_, 0, 0};
    }
    RowGroup& group = groups_[groupCount_ - 1];
    BatchView& batch = batches_[batchCount_++];
    batch = *view;
    batch.group = groupCount_ - 1;
    batch.firstRow = rowCount_;
    group.rowCount += batch.rowCount;
    group.outputCount += batch.outputCount;
    rowCount_ += batch.rowCount;
    outputCount_ += batch.outputCount;
  }
  phase_ = -1;
  cancelled_.store(false, std::memory_order_relaxed);
}

int32_t StepJob::advance() {
  const auto phases = static_cast<int32_t>(model_.program.stages.size()) + 1;
  if (phase_ < 0) {
    makeSegments();
    orderOutputs();
  }
  while (++phase_ < phases) {
    if (cancelled_.load(std::memory_order_relaxed)) return 0;
    const int32_t tasks = setUp();
    if (tasks > 1) return tasks;
    // No other thread could help with a single task: it runs here, before anybody is woken for it.
    if (tasks == 1) runTask(0, 0);
  }
  finishArgmax();
  return 0;
}

const Stage& StepJob::stage() const {
  const auto& stages = model_.program.stages;
  return stages[std::min<size_t>(phase_, stages.size() - 1)];
}

int32_t StepJob::setUp() {
  const Stage& current = stage();
  switch (current.kind) {
    case Stage::Kind::rows:
      return setUpRows();
    case Stage::Kind::linear:
      return setUpLinear();
    case Stage::Kind::attention:
      return setUpAttention();
    case Stage::Kind::logits:
      return inLogitsRows() ? setUpLogitsRows() : setUpLogits();
  }
  __builtin_unreachable();
}

void StepJob::runTask(int32_t task, int32_t thread) {
  const Stage& current = stage();
  const int32_t begin = task * split_.itemsPerTask;
  const int32_t end = std::min(begin + split_.itemsPerTask, split_.items);
  switch (current.kind) {
    case Stage::Kind::rows:
      runRows(current, begin, end);
      return;
    case Stage::Kind::linear:
      runLinear(task);
      return;
    case Stage::Kind::attention:
      runAttention(begin, end, thread);
      return;
    case Stage::Kind::logits:
      if (inLogitsRows()) {
        runLogitsRows(begin, end);
      } else {
        runLogits(task, thread);
      }
      return;
  }
}

// Splits independent items into tasks that are worth claiming. Returns the number of tasks.
int32_t StepJob::splitItems(int64_t items, double nanosecondsEach) {
  const double total = static_cast<double>(items) * nanosecondsEach;
  const double target = std::max(kTaskNanoseconds, total / (model_.pool.threadCount() * kTasksPerThread));
  auto perTask = std::max<int64_t>(1, std::llround(target / nanosecondsEach));
  // What would end in one task and a rest too small to share stays one task.
  if (total < 2 * kTaskNanoseconds || model_.pool.threadCount() == 1) perTask = items;
  perTask = std::max(perTask, (items + kMaxTasks - 1) / kMaxTasks);
  split_.items = static_cast<int32_t>(items);
  split_.itemsPerTask = static_cast<int32_t>(std::min(perTask, items));
  return static_cast<int32_t>((items + split_.itemsPerTask - 1) / split_.itemsPerTask);
}

}  // namespace stet::cpu
