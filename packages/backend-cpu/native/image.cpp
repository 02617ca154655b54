#include "image.h"

#include <algorithm>
#include <new>

#include "checksum.h"

namespace stet::cpu {
namespace {

constexpr size_t kAlignment = 64;

size_t bytesOf(const Kernels& kernels, const WeightShape& shape) {
  if (shape.kind == WeightShape::Kind::matrix) return kernels.matrixBytes(shape.format, shape.rows, shape.columns);
  return static_cast<size_t>(shape.rows) * sizeof(float);
}

}  // namespace

ImageLayout layOutImage(const Kernels& kernels, const std::vector<WeightShape>& weights) {
  ImageLayout layout{{}, 0};
  for (const WeightShape& shape : weights) {
    const size_t size = bytesOf(kernels, shape);
    layout.places.push_back({layout.size, size});
    if (__builtin_add_overflow(layout.size, roundUp(size, kAlignment), &layout.size)) throw std::bad_alloc();
  }
  return layout;
}

ImageSumsJob::ImageSumsJob(const Region& image, uint64_t* sums)
    : image_(image),
      sums_(sums),
      count_(imageSumCount(image.size())),
      taskSums_(roundUp(std::max<size_t>(count_, 1), kMaxTasks) / kMaxTasks) {}

int32_t ImageSumsJob::advance() {
  if (started_) return 0;
  started_ = true;
  return static_cast<int32_t>(roundUp(count_, taskSums_) / taskSums_);
}

void ImageSumsJob::runTask(int32_t task, int32_t) {
  const size_t begin = static_cast<size_t>(task) * taskSums_;
  for (size_t i = begin; i < std::min(begin + taskSums_, count_); i++) {
    const size_t offset = i * kSumBytes;
    sums_[i] = xxh64(image_.data() + offset, std::min(kSumBytes, image_.size() - offset));
  }
}

}  // namespace stet::cpu
