// The image of a model's weights as JavaScript sees it, which writes it to files and has it read from them.
#include <cstring>
#include <stdexcept>

#include "handle.h"

namespace stet::cpu {
namespace {

// imagePlaces(handle) → Float64Array of the (offset, size) of each weight in the image, and its size at the end.
napi_value imagePlaces(Args& args) {
  const ImageLayout& layout = handleOf(args).runtime->model().imageLayout();
  const size_t count = 2 * layout.places.size() + 1;
  void* data = nullptr;
  napi_value buffer, array;
  check(args.env(), napi_create_arraybuffer(args.env(), count * sizeof(double), &data, &buffer));
  auto* next = static_cast<double*>(data);
  for (const ImagePlace& place : layout.places) {
    *next++ = static_cast<double>(place.offset);
    *next++ = static_cast<double>(place.size);
  }
  *next = static_cast<double>(layout.size);
  check(args.env(), napi_create_typedarray(args.env(), napi_float64_array, count, buffer, 0, &array));
  return array;
}

// adoptImage(handle): sets all weights to what lies in the image.
napi_value adoptImage(Args& args) {
  idleHandleOf(args).runtime->model().adoptImage();
  return nullptr;
}

// dropImage(handle): no weight is set any more.
napi_value dropImage(Args& args) {
  idleHandleOf(args).runtime->model().dropImage();
  return nullptr;
}

// sumImage(handle, sums, file or undefined, offset) → Promise; checksums of 8 bytes each, as many as the image has. With
// a file the image is read from it; the caller keeps it open until then.
napi_value sumImage(Args& args) {
  Handle& handle = idleHandleOf(args);
  const auto sums = args.unsignedBytes(1);
  const size_t count = imageSumCount(handle.runtime->model().image().size());
  auto* const target = reinterpret_cast<uint64_t*>(sums.data);
  if (sums.length != count * sizeof *target || reinterpret_cast<uintptr_t>(target) % alignof(uint64_t) != 0) {
    throw std::logic_error("checksums do not fit the image");
  }
  const bool reads = !args.absent(2);
  const ImageFile file = reads ? ImageFile{args.integer(2), static_cast<size_t>(args.integer(3))} : ImageFile{};
  keep(args.env(), handle.sources, args.value(1));
  napi_value promise = beginRequest(handle);
  if (reads) {
    handle.runtime->readImage(file, target);
  } else {
    handle.runtime->sumImage(target);
  }
  return promise;
}

// copyImage(handle, offset, target): bytes of the image from `offset` on, to write them to a file.
napi_value copyImage(Args& args) {
  Handle& handle = idleHandleOf(args);
  const double offset = args.real(1);
  const auto target = args.unsignedBytes(2);
  const Region& image = handle.runtime->model().image();
  if (!(offset >= 0) || offset + static_cast<double>(target.length) > static_cast<double>(image.size())) {
    throw std::logic_error("a copy leaves the image");
  }
  std::memcpy(target.data, image.data() + static_cast<size_t>(offset), target.length);
  return nullptr;
}

}  // namespace

void exportImage(napi_env env, napi_value exports) {
  exportFunction(env, exports, "imagePlaces", callback<imagePlaces>);
  exportFunction(env, exports, "adoptImage", callback<adoptImage>);
  exportFunction(env, exports, "dropImage", callback<dropImage>);
  exportFunction(env, exports, "sumImage", callback<sumImage>);
  exportFunction(env, exports, "copyImage", callback<copyImage>);
}

}  // namespace stet::cpu
