#include "memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace stet::cpu {
namespace {

constexpr size_t kAlignment = 64;
// Smaller regions come from the heap: a mapping of their own would waste most of its page.
constexpr size_t kMapThreshold = size_t{256} << 10;
constexpr size_t kHugePage = size_t{2} << 20;

std::atomic<int64_t> liveByteCount{0};

}  // namespace

int64_t liveBytes() { return liveByteCount.load(std::memory_order_relaxed); }

size_t checkedProduct(size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product)) throw std::bad_alloc();
  return product;
}

Region::Region(size_t bytes, Pages pages) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX - kHugePage) throw std::bad_alloc();
  if (bytes >= kMapThreshold) {
    // Huge pages begin at multiples of their size.
    const bool aligned = pages == Pages::huge && bytes >= kHugePage;
    mappingSize_ = bytes + (aligned ? kHugePage : 0);
    mapping_ = mmap(nullptr, mappingSize_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) {
      mapping_ = nullptr;
      throw std::bad_alloc();
    }
    auto address = reinterpret_cast<uintptr_t>(mapping_);
    if (aligned) {
      address = roundUp(address, kHugePage);
      // Advice only: a kernel without huge pages serves the same bytes from small ones.
      madvise(reinterpret_cast<void*>(address), bytes, MADV_HUGEPAGE);
    }
    data_ = reinterpret_cast<std::byte*>(address);
  } else {
    void* address = std::aligned_alloc(kAlignment, roundUp(bytes, kAlignment));
    if (!address) throw std::bad_alloc();
    std::memset(address, 0, bytes);
    data_ = static_cast<std::byte*>(address);
  }
  size_ = bytes;
  liveByteCount.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

Region::Region(Region&& other) noexcept { *this = std::move(other); }

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mappingSize_, other.mappingSize_);
  return *this;
}

Region::~Region() {
  if (!data_) return;
  if (mapping_) {
    munmap(mapping_, mappingSize_);
  } else {
    std::free(data_);
  }
  liveByteCount.fetch_sub(static_cast<int64_t>(size_), std::memory_order_relaxed);
}

}  // namespace stet::cpu
