// The logits stage, for the wanted rows alone: a section of rows (norm, prepared input), then one of tile ranges of the
// head. Rows that want their arg-max alone never have all their logits in memory: each range leaves its two best.
#include <algorithm>

#include "step.h"

namespace stet::cpu {
namespace {

constexpr double kElementNanoseconds = 0.5;
constexpr double kWeightNanoseconds = 0.08;
constexpr double kProductNanoseconds = 0.012;

int32_t divideUp(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

// Of two ranges of a row; an equal logit of the later one has a higher token and loses.
Argmax joined(const Argmax& earlier, const Argmax& later) {
  if (later.logit > earlier.logit) return {later.index, later.logit, std::max(earlier.logit, later.runnerUpLogit)};
  return {earlier.index, earlier.logit, std::max(earlier.runnerUpLogit, later.logit)};
}

}  // namespace

// Puts the outputs of each batch that want an arg-max alone before those that want logits.
void StepJob::orderOutputs() {
  Workspace& work = model_.work;
  for (int32_t b = 0; b < batchCount_; b++) {
    BatchView& batch = batches_[b];
    int32_t at = batch.firstOutput;
    for (const int32_t kind : {0, 1}) {
      for (int32_t i = 0; i < batch.outputCount; i++) {
        if (batch.outputKinds[i] != kind) continue;
        work.outputRow[at] = batch.firstRow + batch.outputRows[i];
        work.outputResult[at++] = i;
      }
      if (kind == 0) batch.argmaxOnlyCount = at - batch.firstOutput;
    }
  }
}

int32_t StepJob::setUpLogitsRows() {
  if (outputCount_ == 0) return 0;
  return splitItems(outputCount_, model_.work.normedSlot.columns * kElementNanoseconds);
}

void StepJob::runLogitsRows(int32_t begin, int32_t end) {
  const Kernels& k = model_.kernels;
  const Workspace& work = model_.work;
  const LogitsOp& op = stage().logits;
  const NormConstants& constants = model_.program.constants[op.constants];
  const PreparedSlot& slot = work.normedSlot;
  for (int32_t i = begin; i < end; i++) {
    const int32_t row = work.outputRow[i];
    const BatchView& batch = batchOfRow(row);
    k.rmsNorm(batch.schedule, work.buffers[op.input].row(row), model_.vectors[op.norm], slot.columns, 1,
              constants.scaledEpsilon, constants.rootWidth, work.normed.row(i));
    k.prepareInput(slot.format, batch.schedule, work.normed.row(i), slot.columns,
                   slot.row(batch.schedule, i - batch.firstOutput));
  }
}

int32_t StepJob::setUpLogits() {
  if (outputCount_ == 0) return 0;
  const WeightShape& head = model_.program.weights[stage().logits.weight];
  const int32_t tileRows = model_.kernels.tileRows;
  int32_t sets = 1;
  for (int32_t b = 0; b < batchCount_; b++) sets = std::max(sets, divideUp(batches_[b].outputCount, kSetRows));
  const double weightNanoseconds = kWeightNanoseconds + kProductNanoseconds * outputCount_ / sets;
  const double total = static_cast<double>(head.rows) * head.columns * weightNanoseconds * sets;
  const double target = std::max(kTaskNanoseconds, total / (model_.pool.threadCount() * kTasksPerThread));
  const int32_t tiles = divideUp(head.rows, tileRows);
  split_.sets = sets;
  setRange(0, tiles, static_cast<double>(tileRows) * head.columns * weightNanoseconds, target,
           static_cast<size_t>(tileRows) * head.columns * 2);
  if (split_.rangeTiles[0] > kLogitsRangeTiles) {
    split_.rangeTiles[0] = kLogitsRangeTiles;
    split_.rangeCount[0] = divideUp(tiles, kLogitsRangeTiles);
  }
  return split_.rangeCount[0] * sets;
}

void StepJob::runLogits(int32_t task, int32_t thread) {
  const int32_t range = task / split_.sets;
  for (int32_t b = 0; b < batchCount_; b++) {
    const BatchView& batch = batches_[b];
    const RowSpan span = rowsOfSet(batch.schedule, 0, batch.outputCount, task % split_.sets);
    const int32_t end = span.firstRow + span.rowCount;
    const int32_t boundary = std::clamp(batch.argmaxOnlyCount, span.firstRow, end);
    runLogitsSpan(batch, span.firstRow, boundary - span.firstRow, range, thread);
    runLogitsSpan(batch, boundary, end - boundary, range, thread);
  }
}

// Outputs firstOutput .. firstOutput + count - 1 of a batch, all of one kind.
void StepJob::runLogitsSpan(const BatchView& batch, int32_t firstOutput, int32_t count, int32_t range, int32_t thread) {
  if (count == 0) return;
  const Kernels& k = model_.kernels;
  const Workspace& work = model_.work;
  const LogitsOp& op = stage().logits;
  const int32_t vocabSize = model_.program.shape.vocabSize;
  const int32_t tileBegin = range * split_.rangeTiles[0];
  const int32_t tileEnd = std::min(tileBegin + split_.rangeTiles[0], divideUp(vocabSize, k.tileRows));
  const int32_t columnBegin = tileBegin * k.tileRows;
  const int32_t columnCount = std::min(tileEnd * k.tileRows, vocabSize) - columnBegin;
  float* output;  // row 0, column 0
  int64_t stride;
  if (firstOutput < batch.argmaxOnlyCount) {
    // The scratch holds this range's columns alone.
    output = work.tileScratch[thread] - columnBegin;
    stride = static_cast<int64_t>(split_.rangeTiles[0]) * k.tileRows;
  } else {
    output = batch.logits + static_cast<int64_t>(firstOutput - batch.argmaxOnlyCount) * vocabSize;
    stride = vocabSize;
  }
  k.linear(model_.matrices[op.weight], batch.schedule, work.normedSlot.row(batch.schedule, firstOutput), count,
           op.bias < 0 ? nullptr : model_.vectors[op.bias], tileBegin, tileEnd, output, stride);
  for (int32_t i = 0; i < count; i++) {
    Argmax partial = k.argmax(output + i * stride + columnBegin, columnCount);
    partial.index += columnBegin;
    work.partials[static_cast<int64_t>(batch.firstOutput + firstOutput + i) * split_.rangeCount[0] + range] = partial;
  }
}

void StepJob::finishArgmax() {
  const Workspace& work = model_.work;
  for (int32_t b = 0; b < batchCount_; b++) {
    const BatchView& batch = batches_[b];
    for (int32_t i = 0; i < batch.outputCount; i++) {
      const int32_t output = batch.firstOutput + i;
      const Argmax* partials = work.partials + static_cast<int64_t>(output) * split_.rangeCount[0];
      Argmax best = partials[0];
      for (int32_t range = 1; range < split_.rangeCount[0]; range++) best = joined(best, partials[range]);
      const int32_t result = work.outputResult[output];
      batch.argmax[result] = best.index;
      batch.argmaxLogit[result] = best.logit;
      batch.runnerUpLogit[result] = best.runnerUpLogit;
    }
  }
}

}  // namespace stet::cpu
