// Stages of row operations: every row passes through all of them while it is in the cache.
#include <algorithm>

#include "step.h"

namespace stet::cpu {
namespace {

// Nanoseconds an element of a row operation takes, roughly, on a SIMD instruction set.
constexpr double kElementNanoseconds = 0.25;
// A norm takes besides, for its one sum and root.
constexpr double kNormNanoseconds = 30;

}  // namespace

int32_t StepJob::setUpRows() {
  int64_t elements = 0;
  int64_t norms = 0;
  const Program& program = model_.program;
  for (const RowOp& op : stage().rowOps) {
    const int32_t buffer = op.kind == RowOp::Kind::embed || op.kind == RowOp::Kind::kvWrite ? op.b : op.a;
    elements += program.bufferWidths[buffer] * (op.kind == RowOp::Kind::kvWrite ? 2 : 1);
    if (op.kind == RowOp::Kind::rmsNorm) norms += op.e;
  }
  return splitItems(rowCount_, static_cast<double>(elements) * kElementNanoseconds + static_cast<double>(norms) * kNormNanoseconds);
}

void StepJob::runRows(const Stage& current, int32_t begin, int32_t end) {
  for (int32_t row = begin; row < end; row++) {
    const BatchView& batch = batchOfRow(row);
    for (const RowOp& op : current.rowOps) runRowOp(op, batch, groups_[batch.group], row);
  }
}

void StepJob::runRowOp(const RowOp& op, const BatchView& batch, const RowGroup& group, int32_t row) {
  const Kernels& k = model_.kernels;
  const Program& program = model_.program;
  const Shape& shape = program.shape;
  const auto at = [&](int32_t buffer) { return model_.work.buffers[buffer].row(row); };
  const int32_t batchRow = row - batch.firstRow;
  switch (op.kind) {
    case RowOp::Kind::embed:
      k.embed(model_.matrices[op.a], group.kernels, batch.tokens[batchRow], at(op.b));
      return;
    case RowOp::Kind::rmsNorm: {
      const NormConstants& constants = program.constants[op.c];
      k.rmsNorm(group.kernels, at(op.a), model_.vectors[op.b], program.bufferWidths[op.a] / op.e, op.e,
                constants.scaledEpsilon, constants.rootWidth, at(op.d));
      return;
    }
    case RowOp::Kind::prepare: {
      const PreparedSlot& slot = model_.work.slots[op.b];
      k.prepareInput(slot.format, group.kernels, at(op.a), slot.columns, slot.row(group.kernels, row - group.firstRow));
      return;
    }
    case RowOp::Kind::rope: {
      const Model::Rope& rope = model_.ropes[op.c];
      const size_t offset = static_cast<size_t>(batch.positions[batchRow]) * (shape.headSize / 2);
      k.rope(group.kernels, at(op.a), op.b, shape.headSize, rope.cosine + offset, rope.sine + offset);
      return;
    }
    case RowOp::Kind::kvWrite: {
      std::byte* block = model_.kv.layer(op.a) + static_cast<size_t>(model_.work.rowBlock[row]) * model_.kv.blockStride;
      const int32_t offset = batch.positions[batchRow] % shape.blockSize;
      for (int32_t head = 0; head < shape.kvHeadCount; head++) {
        k.kvWrite(at(op.b) + head * shape.headSize, at(op.c) + head * shape.headSize, shape.headSize, shape.blockSize,
                  offset, block + head * model_.kv.headBytes);
      }
      return;
    }
    case RowOp::Kind::swiglu:
      k.swiglu(group.kernels, at(op.a), at(op.b), program.bufferWidths[op.a], at(op.c));
      return;
    case RowOp::Kind::add:
      k.add(group.kernels, at(op.a), at(op.b), program.bufferWidths[op.a], at(op.c));
      return;
  }
}

}  // namespace stet::cpu
