#include "model.h"

#include <algorithm>
#include <cstring>

namespace stet::cpu {
namespace {

// Hands out parts of one region: a first pass with no base adds up the size, a second one places them.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}

  template <class T>
  T* take(size_t count, size_t elementBytes = sizeof(T)) {
    const size_t offset = used_;
    if (__builtin_add_overflow(used_, roundUp(checkedProduct(count, elementBytes), 64), &used_)) throw std::bad_alloc();
    return base_ ? reinterpret_cast<T*>(base_ + offset) : nullptr;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

Buffer takeBuffer(Arena& arena, size_t rows, int32_t width) {
  const size_t stride = roundUp(static_cast<size_t>(width), 16);
  return {arena.take<float>(checkedProduct(rows, stride)), static_cast<int64_t>(stride)};
}

PreparedSlot takeSlot(Arena& arena, const Kernels& kernels, const Program& program, Format format, int32_t columns) {
  PreparedSlot slot{};
  slot.format = format;
  slot.columns = columns;
  const auto maxRows = static_cast<size_t>(program.shape.maxRows);
  size_t rows[2] = {};  // by Schedule
  for (const Schedule kernels : {program.fastKernels, Schedule::canonical}) rows[static_cast<size_t>(kernels)] += maxRows;
  for (const Schedule schedule : {Schedule::fast, Schedule::canonical}) {
    const auto s = static_cast<size_t>(schedule);
    slot.rowBytes[s] = kernels.inputBytes(format, schedule, columns);
    slot.data[s] = arena.take<std::byte>(rows[s], slot.rowBytes[s]);
  }
  return slot;
}

void placeWorkspace(Workspace& work, Arena& arena, const Kernels& kernels, const Program& program, int32_t threadCount) {
  const size_t rows = 2 * static_cast<size_t>(program.shape.maxRows);
  work.buffers.clear();
  work.slots.clear();
  work.attentionScratch.clear();
  work.tileScratch.clear();
  for (const int32_t width : program.bufferWidths) work.buffers.push_back(takeBuffer(arena, rows, width));
  for (const Slot& slot : program.slots) {
    work.slots.push_back(takeSlot(arena, kernels, program, slot.format, slot.columns));
  }
  work.rowBlock = arena.take<int32_t>(rows);
  work.segments = arena.take<AttentionSegment>(rows);
  work.outputRow = arena.take<int32_t>(rows);
  work.outputResult = arena.take<int32_t>(rows);
  const LogitsOp& logits = program.stages.back().logits;
  const WeightShape& head = program.weights[logits.weight];
  work.normed = takeBuffer(arena, rows, head.columns);
  work.normedSlot = takeSlot(arena, kernels, program, head.format, head.columns);
  // A task takes at least one tile, so there are never more ranges than tiles.
  const size_t tiles = roundUp(static_cast<size_t>(head.rows), kernels.tileRows) / kernels.tileRows;
  work.partials = arena.take<Argmax>(checkedProduct(rows, tiles));
  int32_t mostHeads = 1;
  for (const Stage& stage : program.stages) {
    for (const AttentionOp& op : stage.attentions) mostHeads = std::max(mostHeads, op.headCount / program.shape.kvHeadCount);
  }
  const size_t scratchBytes =
      kernels.attentionScratchBytes(program.shape.headSize, mostHeads, program.shape.contextLength);
  for (int32_t thread = 0; thread < threadCount; thread++) {
    work.attentionScratch.push_back(arena.take<std::byte>(scratchBytes));
    work.tileScratch.push_back(arena.take<float>(static_cast<size_t>(kSetRows) * kLogitsRangeTiles * kernels.tileRows));
  }
}

Workspace makeWorkspace(const Kernels& kernels, const Program& program, int32_t threadCount) {
  Workspace work{};
  Arena measure(nullptr);
  placeWorkspace(work, measure, kernels, program, threadCount);
  work.memory = Region(measure.used());
  Arena arena(work.memory.data());
  placeWorkspace(work, arena, kernels, program, threadCount);
  return work;
}

KvPool makeKvPool(const Kernels& kernels, const Shape& shape) {
  KvPool kv{};
  kv.headBytes = kernels.kvBlockBytes(shape.headSize, shape.blockSize);
  kv.blockStride = checkedProduct(kv.headBytes, shape.kvHeadCount);
  kv.layerStride = checkedProduct(kv.blockStride, shape.blockCount);
  kv.memory = Region(checkedProduct(kv.layerStride, shape.layerCount), Pages::huge);
  return kv;
}

class PackJob : public Job {
 public:
  PackJob(const Kernels& kernels, const MatrixSource& source, std::byte* packed, int32_t threadCount)
      : kernels_(kernels), source_(source), packed_(packed) {
    const int32_t tileCount = (source.rows + kernels.tileRows - 1) / kernels.tileRows;
    taskTiles_ = std::max(1, tileCount / (8 * threadCount));
    taskTiles_ = std::max(taskTiles_, (tileCount + kMaxTasks - 1) / kMaxTasks);
    tileCount_ = tileCount;
  }
  int32_t advance() override {
    if (started_) return 0;
    started_ = true;
    return (tileCount_ + taskTiles_ - 1) / taskTiles_;
  }
  void runTask(int32_t task, int32_t) override {
    const int32_t begin = task * taskTiles_;
    kernels_.packMatrix(source_, begin, std::min(begin + taskTiles_, tileCount_), packed_);
  }

 private:
  const Kernels& kernels_;
  const MatrixSource& source_;
  std::byte* packed_;
  int32_t tileCount_;
  int32_t taskTiles_;
  bool started_ = false;
};

// Floats of the cosines, or of the sines, of a rope.
size_t ropeCountOf(const Shape& shape) { return checkedProduct(shape.contextLength, shape.headSize / 2); }

}  // namespace

Model::Model(const Kernels& k, Program p, int32_t threadCount)
    : kernels(k),
      program(std::move(p)),
      pool(threadCount),
      kv(makeKvPool(kernels, program.shape)),
      work(makeWorkspace(kernels, program, threadCount)),
      vectors(program.weights.size(), nullptr),
      ropes(program.ropeCount),
      imageLayout_(layOutImage(kernels, program.weights)) {
  for (const WeightShape& shape : program.weights) matrices.push_back({shape.format, shape.rows, shape.columns, nullptr});
  const auto place = [&](Arena arena) {
    const size_t ropeCount = ropeCountOf(program.shape);
    for (Rope& rope : ropes) rope = {arena.take<float>(ropeCount), arena.take<float>(ropeCount), 0};
    return arena.used();
  };
  ropeMemory_ = Region(place(Arena(nullptr)), Pages::huge);
  place(Arena(ropeMemory_.data()));
  dropImage();
}

void Model::adoptImage() {
  for (size_t i = 0; i < program.weights.size(); i++) {
    const std::byte* data = image_.data() + imageLayout_.places[i].offset;
    if (program.weights[i].kind == WeightShape::Kind::matrix) {
      matrices[i].data = data;
    } else {
      vectors[i] = reinterpret_cast<const float*>(data);
    }
  }
}

void Model::dropImage() {
  for (Matrix& matrix : matrices) matrix.data = nullptr;
  std::fill(vectors.begin(), vectors.end(), nullptr);
  image_ = Region();
  image_ = Region(imageLayout_.size, Pages::huge);
}

void Model::setVector(int32_t weight, const float* values) {
  std::byte* target = placeOf(weight);
  std::memcpy(target, values, static_cast<size_t>(program.weights[weight].rows) * sizeof(float));
  vectors[weight] = reinterpret_cast<const float*>(target);
}

void Model::extendRope(int32_t index, int32_t positionCount, const float* cosine, const float* sine) {
  Rope& rope = ropes[index];
  const size_t pairs = program.shape.headSize / 2;
  const size_t offset = rope.reach * pairs;
  std::memcpy(rope.cosine + offset, cosine, positionCount * pairs * sizeof(float));
  std::memcpy(rope.sine + offset, sine, positionCount * pairs * sizeof(float));
  rope.reach += positionCount;
}

void Model::packMatrix(int32_t weight, const MatrixSource& source) {
  PackJob job(kernels, source, placeOf(weight), pool.threadCount());
  pool.run(job);
  matrices[weight].data = placeOf(weight);
}

bool Model::complete() const {
  for (size_t i = 0; i < program.weights.size(); i++) {
    if (!matrices[i].data && !vectors[i]) return false;
  }
  return true;
}

}  // namespace stet::cpu
