// Counted memory. Everything a runtime holds beyond a few small vectors is a Region, so that `liveBytes()` is 0 when
// every backend of the process is closed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stet::cpu {

// Bytes of all live regions of the process.
int64_t liveBytes();

enum class Pages { ordinary, huge };

// A zeroed, 64-byte aligned allocation. Its pages are taken from the system when they are first touched, so a large
// scratch area or K/V pool costs nothing until it is used. Throws std::bad_alloc.
class Region {
 public:
  Region() = default;
  explicit Region(size_t bytes, Pages pages = Pages::ordinary);
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  // Of a mapping, which may begin before the data; null for memory of the heap.
  void* mapping_ = nullptr;
  size_t mappingSize_ = 0;
};

// a * b, or std::bad_alloc where the product does not fit.
size_t checkedProduct(size_t a, size_t b);

inline size_t roundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace stet::cpu
