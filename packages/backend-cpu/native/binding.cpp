#include "binding.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace stet::cpu {

void check(napi_env env, napi_status status) {
  if (status == napi_ok) return;
  const napi_extended_error_info* info = nullptr;
  napi_get_last_error_info(env, &info);
  const char* message = info && info->error_message ? info->error_message : "unknown error";
  throw BindingError{"STET_ERR_BACKEND_FAILED", std::string("a Node-API call failed: ") + message};
}

Args::Args(napi_env env, napi_callback_info info) : env_(env) {
  check(env, napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr));
}

napi_value Args::value(size_t index) const {
  if (index >= count_) throw std::logic_error("a native function was called with too few arguments");
  return values_[index];
}

int32_t Args::integer(size_t index) const {
  int32_t result;
  check(env_, napi_get_value_int32(env_, value(index), &result));
  return result;
}

double Args::real(size_t index) const {
  double result;
  check(env_, napi_get_value_double(env_, value(index), &result));
  return result;
}

bool Args::boolean(size_t index) const {
  bool result;
  check(env_, napi_get_value_bool(env_, value(index), &result));
  return result;
}

bool Args::absent(size_t index) const {
  napi_valuetype type;
  check(env_, napi_typeof(env_, value(index), &type));
  return type == napi_undefined;
}

void* Args::typedArray(napi_value value, napi_typedarray_type type, size_t* length) const {
  napi_typedarray_type actual;
  void* data = nullptr;
  check(env_, napi_get_typedarray_info(env_, value, &actual, length, &data, nullptr, nullptr));
  if (actual != type) throw std::logic_error("a native function was called with an array of another type");
  return data;
}

ArrayView<float> Args::floats(size_t index) const {
  size_t length = 0;
  void* data = typedArray(value(index), napi_float32_array, &length);
  return {static_cast<float*>(data), length};
}

ArrayView<double> Args::doubles(size_t index) const {
  size_t length = 0;
  void* data = typedArray(value(index), napi_float64_array, &length);
  return {static_cast<double*>(data), length};
}

std::vector<ArrayView<float>> Args::rows(size_t index) const {
  uint32_t count;
  check(env_, napi_get_array_length(env_, value(index), &count));
  std::vector<ArrayView<float>> rows(count);
  for (uint32_t i = 0; i < count; i++) {
    napi_value row;
    check(env_, napi_get_element(env_, value(index), i, &row));
    rows[i].data = static_cast<float*>(typedArray(row, napi_float32_array, &rows[i].length));
  }
  return rows;
}

ArrayView<int32_t> Args::ints(size_t index) const {
  size_t length = 0;
  void* data = typedArray(value(index), napi_int32_array, &length);
  return {static_cast<int32_t*>(data), length};
}

ArrayView<uint16_t> Args::words(size_t index) const {
  size_t length = 0;
  void* data = typedArray(value(index), napi_uint16_array, &length);
  return {static_cast<uint16_t*>(data), length};
}

ArrayView<int8_t> Args::bytes(size_t index) const {
  size_t length = 0;
  void* data = typedArray(value(index), napi_int8_array, &length);
  return {static_cast<int8_t*>(data), length};
}

ArrayView<uint8_t> Args::unsignedBytes(size_t index) const {
  size_t length = 0;
  void* data = typedArray(value(index), napi_uint8_array, &length);
  return {static_cast<uint8_t*>(data), length};
}

void requireQ8Scales(ArrayView<int8_t> quants, ArrayView<float> scales) {
  constexpr uint32_t unused = 0xffff;
  for (size_t block = 0; block < scales.length; block++) {
    uint32_t bits;
    std::memcpy(&bits, scales.data + block, sizeof bits);
    if (bits & unused) throw BindingError{"STET_ERR_BAD_WEIGHTS", "a q8 scale has more than 8 significant bits: encodeQ8 makes such scales"};
    uint32_t digits = (bits >> 16 & 0x7f) | 0x80;
    while (digits % 2 == 0) digits /= 2;
    int sum = 0;
    for (size_t i = block * 32; i < block * 32 + 32; i++) sum += std::abs(static_cast<int>(quants.data[i]));
    if (127u * digits * static_cast<uint32_t>(sum) > 1u << 24) {
      throw BindingError{"STET_ERR_BAD_WEIGHTS", "a q8 scale has more significant bits than the quants of its block allow: encodeQ8 makes such scales"};
    }
  }
}

const Kernels& Args::kernels(size_t index) const {
  constexpr int32_t kIsas = 3;
  const int32_t set = integer(index);
  if (set < 0 || set >= 2 * kIsas) throw BindingError{"STET_ERR_UNSUPPORTED", "unknown kernels"};
  const char* reason = "";
  const Kernels* kernels = kernelsFor(static_cast<Isa>(set % kIsas), static_cast<FastKernels>(set / kIsas), &reason);
  if (!kernels) throw BindingError{"STET_ERR_UNSUPPORTED", reason ? reason : "unknown instruction set"};
  return *kernels;
}

napi_value invoke(Binding binding, napi_env env, napi_callback_info info) {
  try {
    Args args(env, info);
    return binding(args);
  } catch (const BindingError& error) {
    napi_throw_error(env, error.code.c_str(), error.message.c_str());
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, "STET_ERR_OUT_OF_MEMORY", "the memory that the backend asked for could not be allocated");
  } catch (const std::exception& error) {
    napi_throw_error(env, "STET_ERR_BACKEND_FAILED", error.what());
  }
  return nullptr;
}

void exportFunction(napi_env env, napi_value exports, const char* name, napi_callback function) {
  napi_value value;
  check(env, napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value));
  setProperty(env, exports, name, value);
}

napi_value number(napi_env env, double value) {
  napi_value result;
  check(env, napi_create_double(env, value, &result));
  return result;
}

napi_value text(napi_env env, const std::string& value) {
  napi_value result;
  check(env, napi_create_string_utf8(env, value.c_str(), value.size(), &result));
  return result;
}

void setProperty(napi_env env, napi_value object, const char* name, napi_value value) {
  check(env, napi_set_named_property(env, object, name, value));
}

napi_value makeError(napi_env env, const std::string& code, const std::string& message) {
  napi_value error;
  check(env, napi_create_error(env, text(env, code), text(env, message), &error));
  return error;
}

}  // namespace stet::cpu

NAPI_MODULE_INIT() {
  using namespace stet::cpu;
  try {
    exportFeatures(env, exports);
    exportHandle(env, exports);
    exportImage(env, exports);
    exportOps(env, exports);
  } catch (const BindingError& error) {
    napi_throw_error(env, error.code.c_str(), error.message.c_str());
  } catch (const std::exception& error) {
    napi_throw_error(env, "STET_ERR_BACKEND_FAILED", error.what());
  }
  return exports;
}
