// Attention stages: a task is some rows of a sequence with one K/V head.
#include <algorithm>

#include "step.h"

namespace stet::cpu {
namespace {

// Rows of a sequence that attend together: they share every load of keys and values.
constexpr int32_t kSegmentRows = 16;
// Nanoseconds that one product of a query or a probability takes, roughly.
constexpr double kProductNanoseconds = 0.03;

// Positions that the rows of a segment attend to, roughly: as many each as its middle row.
int64_t positionsOf(const AttentionSegment& segment, int32_t windowSize) {
  const int32_t context = segment.firstPosition + segment.rowCount / 2 + 1;
  return static_cast<int64_t>(segment.rowCount) * (windowSize > 0 ? std::min(context, windowSize) : context);
}

}  // namespace

void StepJob::makeSegments() {
  segmentCount_ = 0;
  for (RowGroup& group : groups_) group.segmentCount = 0;
  const int32_t blockSize = model_.program.shape.blockSize;
  for (int32_t b = 0; b < batchCount_; b++) {
    const BatchView& batch = batches_[b];
    for (int32_t s = 0; s < batch.sequenceCount; s++) {
      const int32_t begin = batch.rowStarts[s];
      const int32_t end = batch.rowStarts[s + 1];
      const int32_t* blocks = batch.blocks + batch.blockStarts[s];
      for (int32_t row = begin; row < end; row++) {
        model_.work.rowBlock[batch.firstRow + row] = blocks[batch.positions[row] / blockSize];
      }
      for (int32_t row = begin; row < end; row += kSegmentRows) {
        groups_[batch.group].segmentCount++;
        model_.work.segments[segmentCount_++] = {batch.group, batch.firstRow + row, std::min(kSegmentRows, end - row),
                                                 batch.positions[row], blocks};
      }
    }
  }
}

int32_t StepJob::setUpAttention() {
  const Stage& current = stage();
  const Shape& shape = model_.program.shape;
  int64_t pairs = 0;  // of a query and a position
  for (const AttentionOp& op : current.attentions) {
    int64_t positions = 0;
    for (int32_t s = 0; s < segmentCount_; s++) positions += positionsOf(model_.work.segments[s], op.windowSize);
    pairs += positions * op.headCount;
  }
  const int64_t items = static_cast<int64_t>(segmentCount_) * shape.kvHeadCount * current.attentions.size();
  const double pairsEach = static_cast<double>(pairs) / static_cast<double>(items);
  return splitItems(items, 2 * pairsEach * shape.headSize * kProductNanoseconds + 200);
}

void StepJob::runAttention(int32_t begin, int32_t end, int32_t thread) {
  const Stage& current = stage();
  const Shape& shape = model_.program.shape;
  const Workspace& work = model_.work;
  const int32_t itemsPerOp = segmentCount_ * shape.kvHeadCount;
  for (int32_t item = begin; item < end; item++) {
    const AttentionOp& op = current.attentions[item / itemsPerOp];
    // The last segments of a sequence read most: they go first, so that no thread begins one when the others end.
    const AttentionSegment& segment = work.segments[segmentCount_ - 1 - item % itemsPerOp / shape.kvHeadCount];
    const int32_t head = item % shape.kvHeadCount;
    const Buffer& query = work.buffers[op.query];
    const Buffer& output = work.buffers[op.output];
    const int32_t headsPerKv = op.headCount / shape.kvHeadCount;
    const int64_t column = static_cast<int64_t>(head) * headsPerKv * shape.headSize;
    const RowGroup& group = groups_[segment.group];
    AttentionArgs args{};
    args.query = query.row(segment.firstRow) + column;
    args.queryStride = query.stride;
    args.rowCount = segment.rowCount;
    args.headsPerKv = headsPerKv;
    args.headSize = shape.headSize;
    args.batchTasks = group.segmentCount * shape.kvHeadCount;
    args.firstPosition = segment.firstPosition;
    args.windowSize = op.windowSize;
    args.blockSize = shape.blockSize;
    args.blocks = segment.blocks;
    args.kv = model_.kv.layer(op.layer) + static_cast<size_t>(head) * model_.kv.headBytes;
    args.blockStride = static_cast<int64_t>(model_.kv.blockStride);
    args.scale = model_.program.attentionScale;
    args.output = output.row(segment.firstRow) + column;
    args.outputStride = output.stride;
    args.scratch = work.attentionScratch[thread];
    model_.kernels.attention(group.kernels, args);
  }
}

}  // namespace stet::cpu
