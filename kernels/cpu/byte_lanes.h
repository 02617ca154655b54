// What the byte linears need beside the lanes of an instruction set: dot products of a block, quad by quad, and the sizes
// of their blocks.
#pragma once
#include <cstddef>

#include "lanes_scalar.h"

namespace stet::cpu {
namespace {

struct ScalarByteLanes : ScalarLanes {
  // A block's dot products begin at `start`, add a quad of four weights and four int8 in each lane, and finish as i32.
  template <class Format> static I begin(I start) { return start; }
  template <class Format> static I addQuad(I acc, I weights, I x) { return dotStored(acc, weights, x); }
  // `start` again, for lanes that cannot carry it.
  template <class Format> static I finish(I acc, I) { return acc; }
};

struct ScalarByteShape {
  static constexpr int rows = 1;
  static constexpr int tiles = 1;
  static constexpr int fewRowsTiles = 1;
};

}  // namespace
}  // namespace stet::cpu
