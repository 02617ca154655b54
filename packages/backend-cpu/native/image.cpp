#include "image.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "checksum.h"

namespace stet::cpu {
namespace {

constexpr size_t kAlignment = 64;
// In place of an error of the system.
constexpr int kEndOfFile = -1;

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

ImageSumsJob::ImageSumsJob(Region& image, uint64_t* sums, const ImageFile* file)
    : image_(image),
      sums_(sums),
      file_(file),
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
    const size_t size = std::min(kSumBytes, image_.size() - offset);
    std::byte* const part = image_.data() + offset;
    if (file_) read(part, size, file_->offset + offset);
    sums_[i] = xxh64(part, size);
  }
}

void ImageSumsJob::read(std::byte* target, size_t size, size_t offset) {
  while (size > 0 && error_.load(std::memory_order_relaxed) == 0) {
    const ssize_t count = pread(file_->descriptor, target, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error_.store(count < 0 ? errno : kEndOfFile, std::memory_order_relaxed);
      return;
    }
    target += count;
    offset += static_cast<size_t>(count);
    size -= static_cast<size_t>(count);
  }
}

void ImageSumsJob::requireRead() const {
  const int error = error_.load(std::memory_order_relaxed);
  if (error == kEndOfFile) throw std::runtime_error("the file ended before the image did");
  if (error != 0) throw std::system_error(error, std::generic_category(), "the file could not be read");
}

}  // namespace stet::cpu
