// The logits stage, for the wanted rows alone: a section of rows (norm, prepared input), then one of tile ranges of the
// head. Rows that want their arg-max alone never have all their logits in memory: each range leaves its two best.
#include <algorithm>

#include "step.h"

namespace stet::cpu {
namespace {

constexpr double kElementNanoseconds = 0.5;

int32_t divideUp(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

// Of two ranges of a row; an equal logit of the later one has a higher token and loses.
Argmax joined(const Argmax& earlier, const Argmax& later) {
  if (later.logit > earlier.logit) return {later.index, later.logit, std::max(earlier.logit, later.runnerUpLogit)};
  return {earlier.index, earlier.logit, std::max(earlier.runnerUpLogit, later.logit)};
}

}  // namespace

// Puts the outputs of each group that want an arg-max alone before those that want logits, and those batch by batch.
void StepJob::orderOutputs() {
  spanCount_ = 0;
  int32_t at = 0;
  for (int32_t g = 0; g < groupCount_; g++) {
    const int32_t first = at;
    for (int32_t b = 0; b < batchCount_; b++) {
      if (batches_[b].group == g) at = takeOutputs(batches_[b], 0, at);
    }
    addSpan(g, first, at - first, nullptr);
    for (int32_t b = 0; b < batchCount_; b++) {
      if (batches_[b].group != g) continue;
      const int32_t begin = at;
      at = takeOutputs(batches_[b], 1, at);
      addSpan(g, begin, at - begin, batches_[b].logits);
    }
  }
}

// Appends the outputs of a kind from place `at` on. Returns the place after them.
int32_t StepJob::takeOutputs(const BatchView& batch, int32_t kind, int32_t at) {
  Workspace& work = model_.work;
  for (int32_t i = 0; i < batch.outputCount; i++) {
    if (batch.outputKinds[i] != kind) continue;
    work.outputRow[at] = batch.firstRow + batch.outputRows[i];
    work.outputResult[at++] = i;
  }
  return at;
}

void StepJob::addSpan(int32_t group, int32_t firstOutput, int32_t count, float* logits) {
  if (count > 0) spans_[spanCount_++] = {group, firstOutput, count, logits};
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
    const RowGroup& group = groups_[batchOfRow(row).group];
    k.rmsNorm(group.kernels, work.buffers[op.input].row(row), model_.vectors[op.norm], slot.columns, 1,
              constants.scaledEpsilon, constants.rootWidth, work.normed.row(i));
    k.prepareInput(slot.format, group.kernels, work.normed.row(i), slot.columns,
                   slot.row(group.kernels, i - group.firstOutput));
  }
}

int32_t StepJob::setUpLogits() {
  if (outputCount_ == 0) return 0;
  int32_t sets = 1;
  for (int32_t i = 0; i < spanCount_; i++) sets = std::max(sets, divideUp(spans_[i].count, kSetRows));
  const Reading reading = sets * spanCount_ > 1 ? Reading::again : Reading::once;
  UnitTiles head = tilesOf(model_.program.weights[stage().logits.weight], 1, divideUp(outputCount_, sets), reading);
  head.mostInRange = std::min(head.mostInRange, kLogitsRangeTiles);
  return splitTiles(&head, 1, sets);
}

void StepJob::runLogits(int32_t task, int32_t thread) {
  for (int32_t i = 0; i < spanCount_; i++) {
    const RowRange rows = rowsOfSet(spans_[i].count, task % split_.sets);
    if (rows.count > 0) runLogitsSpan(spans_[i], rows, task / split_.sets, thread);
  }
}

void StepJob::runLogitsSpan(const OutputSpan& span, RowRange rows, int32_t rangeIndex, int32_t thread) {
  const Kernels& k = model_.kernels;
  const Workspace& work = model_.work;
  const LogitsOp& op = stage().logits;
  const int32_t vocabSize = model_.program.shape.vocabSize;
  const TileRange& range = split_.ranges[rangeIndex];
  const int32_t columnBegin = range.begin * k.tileRows;
  const int32_t columnCount = std::min(range.end * k.tileRows, vocabSize) - columnBegin;
  float* output;  // row 0, column 0
  int64_t stride;
  if (span.logits) {
    output = span.logits + static_cast<int64_t>(rows.first) * vocabSize;
    stride = vocabSize;
  } else {
    // The scratch holds this range's columns alone.
    output = work.tileScratch[thread] - columnBegin;
    stride = static_cast<int64_t>(range.end - range.begin) * k.tileRows;
  }
  const RowGroup& group = groups_[span.group];
  const int32_t firstOutput = span.firstOutput + rows.first;
  k.linear(model_.matrices[op.weight], group.kernels, work.normedSlot.row(group.kernels, firstOutput - group.firstOutput), rows.count,
           group.outputCount, op.bias < 0 ? nullptr : model_.vectors[op.bias], range.begin, range.end, output, stride);
  for (int32_t i = 0; i < rows.count; i++) {
    Argmax partial = k.argmax(output + i * stride + columnBegin, columnCount);
    partial.index += columnBegin;
    work.partials[static_cast<int64_t>(firstOutput + i) * split_.rangeCount + rangeIndex] = partial;
  }
}

void StepJob::finishArgmax() {
  const Workspace& work = model_.work;
  for (int32_t output = 0; output < outputCount_; output++) {
    const Argmax* partials = work.partials + static_cast<int64_t>(output) * split_.rangeCount;
    Argmax best = partials[0];
    for (int32_t range = 1; range < split_.rangeCount; range++) best = joined(best, partials[range]);
    const BatchView& batch = batchOfRow(work.outputRow[output]);
    const int32_t result = work.outputResult[output];
    batch.argmax[result] = best.index;
    batch.argmaxLogit[result] = best.logit;
    batch.runnerUpLogit[result] = best.runnerUpLogit;
  }
}

}  // namespace stet::cpu
