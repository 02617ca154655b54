#include "program.h"

#include <stdexcept>

namespace stet::cpu {
namespace {

class Reader {
 public:
  Reader(const int32_t* words, size_t count) : words_(words), count_(count) {}

  int32_t next() {
    if (at_ >= count_) throw std::runtime_error("the program ends too early");
    return words_[at_++];
  }
  // A value of 0 .. limit - 1.
  int32_t index(size_t limit) {
    const int32_t value = next();
    if (value < 0 || static_cast<size_t>(value) >= limit) throw std::runtime_error("the program has an index out of range");
    return value;
  }
  int32_t optionalIndex(size_t limit) {
    const int32_t value = next();
    if (value < -1 || (value >= 0 && static_cast<size_t>(value) >= limit)) {
      throw std::runtime_error("the program has an index out of range");
    }
    return value;
  }
  int32_t positive() {
    const int32_t value = next();
    if (value < 1) throw std::runtime_error("the program has a size below 1");
    return value;
  }
  bool atEnd() const { return at_ == count_; }

 private:
  const int32_t* words_;
  size_t count_;
  size_t at_ = 0;
};

RowOp decodeRowOp(Reader& reader, const Program& program) {
  const size_t buffers = program.bufferWidths.size();
  const size_t weights = program.weights.size();
  RowOp op{};
  op.kind = static_cast<RowOp::Kind>(reader.index(7));
  switch (op.kind) {
    case RowOp::Kind::embed:
      op.a = reader.index(weights);
      op.b = reader.index(buffers);
      break;
    case RowOp::Kind::rmsNorm:
      op.a = reader.index(buffers);
      op.b = reader.index(weights);
      op.c = reader.index(program.constants.size());
      op.d = reader.index(buffers);
      op.e = reader.positive();
      if (program.bufferWidths[op.a] % op.e != 0) throw std::runtime_error("the program has norm groups of unequal size");
      break;
    case RowOp::Kind::prepare:
      op.a = reader.index(buffers);
      op.b = reader.index(program.slots.size());
      break;
    case RowOp::Kind::rope:
      op.a = reader.index(buffers);
      op.b = reader.positive();
      op.c = reader.index(program.ropeCount);
      break;
    case RowOp::Kind::kvWrite:
      op.a = reader.index(program.shape.layerCount);
      op.b = reader.index(buffers);
      op.c = reader.index(buffers);
      break;
    case RowOp::Kind::swiglu:
    case RowOp::Kind::add:
      op.a = reader.index(buffers);
      op.b = reader.index(buffers);
      op.c = reader.index(buffers);
      break;
  }
  return op;
}

LinearUnit decodeUnit(Reader& reader, const Program& program) {
  LinearUnit unit{};
  unit.linearCount = reader.positive();
  if (unit.linearCount > 2) throw std::runtime_error("the program has a unit of too many linears");
  for (int32_t i = 0; i < unit.linearCount; i++) {
    Linear& linear = unit.linears[i];
    linear.weight = reader.index(program.weights.size());
    linear.bias = reader.optionalIndex(program.weights.size());
    linear.slot = reader.index(program.slots.size());
    linear.output = reader.index(program.bufferWidths.size());
  }
  unit.swigluOutput = reader.optionalIndex(program.bufferWidths.size());
  return unit;
}

Stage decodeStage(Reader& reader, const Program& program) {
  Stage stage{};
  stage.kind = static_cast<Stage::Kind>(reader.index(4));
  const int32_t count = reader.positive();
  if (stage.kind == Stage::Kind::linear && count > kMaxUnits) throw std::runtime_error("a stage has too many units");
  for (int32_t i = 0; i < count; i++) {
    switch (stage.kind) {
      case Stage::Kind::rows:
        stage.rowOps.push_back(decodeRowOp(reader, program));
        break;
      case Stage::Kind::linear:
        stage.units.push_back(decodeUnit(reader, program));
        break;
      case Stage::Kind::attention: {
        AttentionOp op{};
        op.layer = reader.index(program.shape.layerCount);
        op.query = reader.index(program.bufferWidths.size());
        op.headCount = reader.positive();
        op.windowSize = reader.index(program.shape.contextLength);
        op.output = reader.index(program.bufferWidths.size());
        stage.attentions.push_back(op);
        break;
      }
      case Stage::Kind::logits:
        stage.logits.input = reader.index(program.bufferWidths.size());
        stage.logits.norm = reader.index(program.weights.size());
        stage.logits.constants = reader.index(program.constants.size());
        stage.logits.weight = reader.index(program.weights.size());
        stage.logits.bias = reader.optionalIndex(program.weights.size());
        break;
    }
  }
  return stage;
}

}  // namespace

Program decodeProgram(const int32_t* words, size_t wordCount, const float* constants, size_t constantCount) {
  Reader reader(words, wordCount);
  Program program{};
  Shape& shape = program.shape;
  for (int32_t* field : {&shape.vocabSize, &shape.contextLength, &shape.layerCount, &shape.kvHeadCount, &shape.headSize,
                         &shape.blockSize, &shape.blockCount, &shape.maxRows}) {
    *field = reader.positive();
  }
  program.fastKernels = static_cast<Schedule>(reader.index(2));
  program.ropeCount = reader.next();
  const int32_t bufferCount = reader.positive();
  for (int32_t i = 0; i < bufferCount; i++) program.bufferWidths.push_back(reader.positive());
  const int32_t weightCount = reader.positive();
  for (int32_t i = 0; i < weightCount; i++) {
    WeightShape weight{};
    weight.kind = static_cast<WeightShape::Kind>(reader.index(2));
    weight.format = static_cast<Format>(reader.index(3));
    weight.rows = reader.positive();
    weight.columns = reader.positive();
    program.weights.push_back(weight);
  }
  const int32_t slotCount = reader.next();
  for (int32_t i = 0; i < slotCount; i++) {
    Slot slot{};
    slot.format = static_cast<Format>(reader.index(3));
    slot.columns = reader.positive();
    program.slots.push_back(slot);
  }
  if (constantCount % 2 != 1) throw std::runtime_error("the program has an odd number of norm constants");
  program.attentionScale = constants[0];
  for (size_t i = 1; i < constantCount; i += 2) program.constants.push_back({constants[i], constants[i + 1]});
  const int32_t stageCount = reader.positive();
  for (int32_t i = 0; i < stageCount; i++) program.stages.push_back(decodeStage(reader, program));
  if (!reader.atEnd()) throw std::runtime_error("the program has words after its end");
  if (program.stages.back().kind != Stage::Kind::logits) throw std::runtime_error("the program does not end in logits");
  return program;
}

}  // namespace stet::cpu
