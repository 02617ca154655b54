// A thin layer over Node-API: arguments by type, errors as exceptions.
#pragma once
#include <node_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels.h"

namespace stet::cpu {

// Thrown in a binding, becomes a JavaScript Error with `code`.
struct BindingError {
  std::string code;
  std::string message;
};

// Throws BindingError unless a Node-API call succeeded.
void check(napi_env env, napi_status status);

template <class T>
struct ArrayView {
  T* data;
  size_t length;
};

class Args {
 public:
  Args(napi_env env, napi_callback_info info);
  napi_env env() const { return env_; }

  napi_value value(size_t index) const;
  int32_t integer(size_t index) const;
  double real(size_t index) const;
  bool boolean(size_t index) const;
  bool absent(size_t index) const;
  ArrayView<float> floats(size_t index) const;
  ArrayView<double> doubles(size_t index) const;
  ArrayView<int32_t> ints(size_t index) const;
  ArrayView<uint16_t> words(size_t index) const;
  ArrayView<int8_t> bytes(size_t index) const;
  ArrayView<uint8_t> unsignedBytes(size_t index) const;
  // The kernels whose number is the argument: that of the instruction set, and that of the fast kernels times kIsas.
  const Kernels& kernels(size_t index) const;
  // Arrays of floats in a JavaScript array.
  std::vector<ArrayView<float>> rows(size_t index) const;

 private:
  void* typedArray(napi_value value, napi_typedarray_type type, size_t* length) const;

  static constexpr size_t kMaxArgs = 12;
  napi_env env_;
  size_t count_ = kMaxArgs;
  napi_value values_[kMaxArgs];
};

// Throws `STET_ERR_BAD_WEIGHTS` where a scale has more significant bits than the numerics allow beside the quants of its
// block, 32 of them: the kernels keep scales in 16 bits, and their products are exact because of that.
void requireQ8Scales(ArrayView<int8_t> quants, ArrayView<float> scales);

using Binding = napi_value (*)(Args& args);
// Runs a binding and turns what it throws into a JavaScript exception.
napi_value invoke(Binding binding, napi_env env, napi_callback_info info);
void exportFunction(napi_env env, napi_value exports, const char* name, napi_callback callback);

napi_value number(napi_env env, double value);
napi_value text(napi_env env, const std::string& value);
void setProperty(napi_env env, napi_value object, const char* name, napi_value value);
napi_value makeError(napi_env env, const std::string& code, const std::string& message);

// Each adds its functions to the module.
void exportFeatures(napi_env env, napi_value exports);
void exportHandle(napi_env env, napi_value exports);
void exportImage(napi_env env, napi_value exports);
void exportOps(napi_env env, napi_value exports);

template <Binding binding>
napi_value callback(napi_env env, napi_callback_info info) {
  return invoke(binding, env, info);
}

}  // namespace stet::cpu
