// What a runtime is to the functions that JavaScript calls it by.
#pragma once
#include <memory>
#include <vector>

#include "binding.h"
#include "runtime.h"

namespace stet::cpu {

// The arrays that one schedule's batches and results pass through, owned by JavaScript.
struct BatchMemory {
  ArrayView<int32_t> columns{};
  ArrayView<int32_t> argmax{};
  ArrayView<float> argmaxLogit{};
  ArrayView<float> runnerUpLogit{};
  ArrayView<float> logits{};
  std::vector<napi_ref> references;
};

struct Handle {
  napi_env env;
  std::unique_ptr<Runtime> runtime;
  napi_threadsafe_function completed = nullptr;
  napi_ref self = nullptr;
  napi_deferred deferred = nullptr;
  bool closing = false;
  BatchMemory batches[2];         // by Schedule
  std::vector<napi_ref> sources;  // arrays that the request which runs reads or fills
};

// Keeps a value alive until the references are dropped.
void keep(napi_env env, std::vector<napi_ref>& references, napi_value value);

// The handle that is the first argument. Throws BindingError where it is closed or, `idle`, where a request runs.
Handle& handleOf(const Args& args);
Handle& idleHandleOf(const Args& args);

// The promise of the request that the caller begins next.
napi_value beginRequest(Handle& handle);

}  // namespace stet::cpu
