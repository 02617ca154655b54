// A loaded model: packed weights, tables, the K/V pool, and the work area that every step uses again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "image.h"
#include "kernels.h"
#include "memory.h"
#include "pool.h"
#include "program.h"

namespace stet::cpu {

// Block b of a layer's K/V head h begins at layer(l) + b * blockStride + h * headBytes.
struct KvPool {
  Region memory;
  size_t headBytes;
  size_t blockStride;
  size_t layerStride;

  std::byte* layer(int32_t index) const { return memory.data() + static_cast<size_t>(index) * layerStride; }
};

// A plan's buffer: row r begins at data + r * stride.
struct Buffer {
  float* data;
  int64_t stride;  // floats, a multiple of 16

  float* row(int64_t index) const { return data + index * stride; }
};

// Prepared inputs of a slot, one area for each schedule whose kernels the program runs.
struct PreparedSlot {
  Format format;
  int32_t columns;
  std::byte* data[2];  // by Schedule
  size_t rowBytes[2];

  std::byte* row(Schedule kernels, int64_t index) const {
    const auto s = static_cast<size_t>(kernels);
    return data[s] + static_cast<size_t>(index) * rowBytes[s];
  }
};

// Consecutive rows of one sequence that attend together.
struct AttentionSegment {
  int32_t group;     // of the step's rows
  int32_t firstRow;  // in the buffers
  int32_t rowCount;
  int32_t firstPosition;
  const int32_t* blocks;
};

// Sized once for two batches of maxRows rows; a step allocates nothing. Rows of the canonical batch come first in
// every buffer, those of the fast batch follow.
struct Workspace {
  Region memory;
  std::vector<Buffer> buffers;
  std::vector<PreparedSlot> slots;
  int32_t* rowBlock;          // (2 maxRows) block that holds the row's position
  AttentionSegment* segments;  // (2 maxRows)
  // Output rows in the order of the logits stage, which step.h calls spans.
  int32_t* outputRow;     // (2 maxRows) row in the buffers
  int32_t* outputResult;  // (2 maxRows) index in the batch's result
  Buffer normed;          // (2 maxRows x hidden)
  PreparedSlot normedSlot;
  Argmax* partials;         // (2 maxRows x logitsRanges), their indices are tokens
  // Per thread.
  std::vector<std::byte*> attentionScratch;
  std::vector<float*> tileScratch;  // (kSetRows x kLogitsRangeTiles tiles)
};

// Rows that one task of a linear takes at most: enough to use a weight often, few enough for their inputs to stay cached.
constexpr int32_t kSetRows = 64;
// Tiles of the head that one task takes at most.
constexpr int32_t kLogitsRangeTiles = 64;

class Model {
 public:
  // Allocates everything but the weights. Throws std::bad_alloc, std::system_error.
  Model(const Kernels& kernels, Program program, int32_t threadCount);

  const Kernels& kernels;
  const Program program;
  Pool pool;
  KvPool kv;
  Workspace work;
  std::vector<Matrix> matrices;       // by weight; without data until it is packed, and for vectors
  std::vector<const float*> vectors;  // by weight; null until it is set, and for matrices
  struct Rope {
    float* cosine;  // (contextLength x headSize / 2), filled below `reach`
    float* sine;
    int32_t reach;  // positions
  };
  std::vector<Rope> ropes;

  void setVector(int32_t weight, const float* values);
  // The rows of the positions from the rope's reach on, count x headSize / 2.
  void extendRope(int32_t rope, int32_t positionCount, const float* cosine, const float* sine);
  // Packs a matrix on all threads; source pointers are read until it returns.
  void packMatrix(int32_t weight, const MatrixSource& source);
  // Where a file is read to, in place of packing and setting; then `adoptImage` sets every weight to what lies there.
  Region& image() { return image_; }
  void adoptImage();
  // Unsets every weight and clears what lies there.
  void dropImage();
  // Whether every weight has been set.
  bool complete() const;

  const ImageLayout& imageLayout() const { return imageLayout_; }
  size_t weightBytes() const { return image_.size() + ropeMemory_.size(); }

 private:
  std::byte* placeOf(int32_t weight) { return image_.data() + imageLayout_.places[weight].offset; }

  const ImageLayout imageLayout_;
  // All weights in one piece, so that they share huge pages and fit a file.
  Region image_;
  Region ropeMemory_;
};

}  // namespace stet::cpu
