// The image of a model's weights: every packed matrix and every vector, each at a multiple of 64 bytes, as they lie in
// memory and in a file. It depends on the shapes of the weights and on the kernels' packed forms, and on nothing else.
#pragma once
#include <atomic>
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

// Where an image is read from: an open file, from `offset` on.
struct ImageFile {
  int descriptor;
  size_t offset;
};

// The checksums of an image, one for each kSumBytes of it, on all threads. With a file the image is read from it, each
// part just before it is summed, while caches have it. Reading and not mapping: what was checked is what is used,
// whatever becomes of the file, and it lies in huge pages, which measured a few percent quicker to stream.
class ImageSumsJob : public Job {
 public:
  // sums (imageSumCount); the pointers are used until the job ends.
  ImageSumsJob(Region& image, uint64_t* sums, const ImageFile* file);
  int32_t advance() override;
  void runTask(int32_t task, int32_t thread) override;
  // Throws std::system_error where the file could not be read, std::runtime_error where it ended before the image did.
  void requireRead() const;

 private:
  void read(std::byte* target, size_t size, size_t offset);

  Region& image_;
  uint64_t* sums_;
  const ImageFile* file_;
  std::atomic<int> error_{0};
  size_t count_;
  size_t taskSums_;
  bool started_ = false;
};

}  // namespace stet::cpu
