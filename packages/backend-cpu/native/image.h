// The image of a model's weights: every packed matrix and every vector, each at a multiple of 64 bytes, as they lie in
// memory and in a file. It depends on the shapes of the weights and on the kernels' packed forms, and on nothing else.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "pool.h"
#include "program.h"

namespace stet::cpu {

struct ImagePlace {
  size_t offset;
  size_t size;
};

struct ImageLayout {
  std::vector<ImagePlace> places;  // by weight
  size_t size;
};

// Throws std::bad_alloc where the sizes do not fit.
ImageLayout layOutImage(const Kernels& kernels, const std::vector<WeightShape>& weights);

// Bytes under one checksum.
constexpr size_t kSumBytes = size_t{1} << 20;

inline size_t imageSumCount(size_t imageBytes) { return roundUp(imageBytes, kSumBytes) / kSumBytes; }

// The checksums of an image, one for each kSumBytes of it, on all threads.
class ImageSumsJob : public Job {
 public:
  // sums (imageSumCount), both read and written until the job ends.
  ImageSumsJob(const Region& image, uint64_t* sums);
  int32_t advance() override;
  void runTask(int32_t task, int32_t thread) override;

 private:
  const Region& image_;
  uint64_t* sums_;
  size_t count_;
  size_t taskSums_;
  bool started_ = false;
};

}  // namespace stet::cpu
