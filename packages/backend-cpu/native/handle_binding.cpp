// A runtime as JavaScript sees it: an external value, and functions that take it. Requests return promises; one may run
// at a time, which the TypeScript side sees to. While a request runs, the event loop and the handle are kept alive;
// at other times neither is, so an open backend does not keep a process from ending.
#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "binding.h"
#include "handle.h"

namespace stet::cpu {
namespace {

void dropReferences(napi_env env, std::vector<napi_ref>& references) {
  for (napi_ref reference : references) napi_delete_reference(env, reference);
  references.clear();
}

// Only after the runtime's thread, which calls the function, has ended.
void releaseCompleted(Handle& handle) {
  napi_release_threadsafe_function(std::exchange(handle.completed, nullptr), napi_tsfn_abort);
}

// The environment ends, e.g. because its worker was terminated: no JavaScript can run any more. Next, Node destroys the
// functions, and from within the last of them finalizes the handles. To release the function only there would be too
// late: it may have been freed or, since Node 24.14, hold the lock that the release waits for.
void stopAtExit(void* data) {
  auto& handle = *static_cast<Handle*>(data);
  handle.runtime->stop();
  releaseCompleted(handle);
}

// Ends the runtime's thread and gives back what the handle holds of Node.
void release(Handle& handle) {
  if (!handle.runtime) return;
  handle.runtime.reset();
  if (handle.completed) {
    napi_remove_env_cleanup_hook(handle.env, stopAtExit, &handle);
    releaseCompleted(handle);
  }
  for (BatchMemory& batch : handle.batches) dropReferences(handle.env, batch.references);
  dropReferences(handle.env, handle.sources);
}

void finalize(napi_env env, void* data, void*) {
  auto* handle = static_cast<Handle*>(data);
  release(*handle);
  if (handle->self) napi_delete_reference(env, handle->self);
  delete handle;
}

// On the runtime's thread.
void requestCompleted(void* context) {
  napi_call_threadsafe_function(static_cast<Handle*>(context)->completed, nullptr, napi_tsfn_nonblocking);
}

// On the thread of the environment, after a request has ended.
void settle(napi_env env, napi_value, void* context, void*) {
  if (!env) return;
  auto& handle = *static_cast<Handle*>(context);
  const Outcome outcome = handle.runtime->outcome();
  napi_deferred deferred = handle.deferred;
  handle.deferred = nullptr;
  napi_unref_threadsafe_function(env, handle.completed);
  dropReferences(env, handle.sources);
  if (handle.closing) release(handle);
  uint32_t count;
  napi_reference_unref(env, handle.self, &count);
  napi_value value;
  if (outcome.code.empty()) {
    napi_get_undefined(env, &value);
    napi_resolve_deferred(env, deferred, value);
  } else {
    napi_reject_deferred(env, deferred, makeError(env, outcome.code, outcome.message));
  }
}

// create(isa, threads, program, constants) → handle
napi_value create(Args& args) {
  napi_env env = args.env();
  const Kernels& kernels = args.kernels(0);
  const int32_t threads = args.integer(1);
  const auto words = args.ints(2);
  const auto constants = args.floats(3);
  Program program = decodeProgram(words.data, words.length, constants.data, constants.length);
  auto handle = std::make_unique<Handle>();
  handle->env = env;
  handle->runtime = std::make_unique<Runtime>(kernels, std::move(program), threads, requestCompleted, handle.get());
  check(env, napi_create_threadsafe_function(env, nullptr, nullptr, text(env, "stet backend-cpu"), 0, 1, nullptr, nullptr,
                                             handle.get(), settle, &handle->completed));
  check(env, napi_unref_threadsafe_function(env, handle->completed));
  // After the function above: hooks run in reverse order, and the runtime's thread must end before the function does.
  check(env, napi_add_env_cleanup_hook(env, stopAtExit, handle.get()));
  napi_value external;
  Handle* raw = handle.release();
  const napi_status status = napi_create_external(env, raw, finalize, nullptr, &external);
  if (status != napi_ok) {
    finalize(env, raw, nullptr);
    check(env, status);
  }
  check(env, napi_create_reference(env, external, 0, &raw->self));
  return external;
}

// setVector(handle, weight, values)
napi_value setVector(Args& args) {
  Handle& handle = idleHandleOf(args);
  const int32_t weight = args.integer(1);
  const auto values = args.floats(2);
  Model& model = handle.runtime->model();
  const WeightShape& shape = model.program.weights.at(weight);
  if (shape.kind != WeightShape::Kind::vector || values.length != static_cast<size_t>(shape.rows)) {
    throw std::logic_error("a vector does not fit its weight");
  }
  model.setVector(weight, values.data);
  return nullptr;
}

// extendRope(handle, rope, cosine, sine): the rows of the next positions.
napi_value extendRope(Args& args) {
  Handle& handle = idleHandleOf(args);
  const int32_t rope = args.integer(1);
  const auto cosine = args.floats(2);
  const auto sine = args.floats(3);
  Model& model = handle.runtime->model();
  const Shape& shape = model.program.shape;
  const size_t pairs = shape.headSize / 2;
  const size_t left = static_cast<size_t>(shape.contextLength - model.ropes.at(rope).reach);
  const size_t positionCount = cosine.length / pairs;
  if (cosine.length != positionCount * pairs || sine.length != cosine.length || positionCount > left) {
    throw std::logic_error("rope tables do not fit the program");
  }
  model.extendRope(rope, static_cast<int32_t>(positionCount), cosine.data, sine.data);
  return nullptr;
}

const WeightShape& matrixShape(Handle& handle, int32_t weight, Format format) {
  const WeightShape& shape = handle.runtime->model().program.weights.at(weight);
  if (shape.kind != WeightShape::Kind::matrix || shape.format != format) {
    throw std::logic_error("a matrix does not fit its weight");
  }
  return shape;
}

// packBf16(handle, weight, bits) → Promise
napi_value packBf16(Args& args) {
  Handle& handle = idleHandleOf(args);
  const int32_t weight = args.integer(1);
  const auto bits = args.words(2);
  const WeightShape& shape = matrixShape(handle, weight, Format::bf16);
  if (bits.length != static_cast<size_t>(shape.rows) * shape.columns) throw std::logic_error("a matrix has another size");
  keep(args.env(), handle.sources, args.value(2));
  napi_value promise = beginRequest(handle);
  handle.runtime->packMatrix(
      weight, {Format::bf16, shape.rows, shape.columns, bits.data, nullptr, nullptr, nullptr, nullptr, nullptr});
  return promise;
}

// packQ8(handle, weight, quants, scales) → Promise
napi_value packQ8(Args& args) {
  Handle& handle = idleHandleOf(args);
  const int32_t weight = args.integer(1);
  const auto quants = args.bytes(2);
  const auto scales = args.floats(3);
  const WeightShape& shape = matrixShape(handle, weight, Format::q8);
  const size_t blocks = static_cast<size_t>(shape.rows) * ((shape.columns + 31) / 32);
  if (quants.length != blocks * 32 || scales.length != blocks) throw std::logic_error("a matrix has another size");
  requireQ8Scales(quants, scales);
  keep(args.env(), handle.sources, args.value(2));
  keep(args.env(), handle.sources, args.value(3));
  napi_value promise = beginRequest(handle);
  handle.runtime->packMatrix(
      weight, {Format::q8, shape.rows, shape.columns, nullptr, quants.data, scales.data, nullptr, nullptr, nullptr});
  return promise;
}

// packQ4(handle, weight, nibbles, scales, centres) → Promise
napi_value packQ4(Args& args) {
  Handle& handle = idleHandleOf(args);
  const int32_t weight = args.integer(1);
  const auto nibbles = args.unsignedBytes(2);
  const auto scales = args.words(3);
  const auto centres = args.words(4);
  const WeightShape& shape = matrixShape(handle, weight, Format::q4);
  const size_t blocks = static_cast<size_t>(shape.rows) * ((shape.columns + 31) / 32);
  if (nibbles.length != blocks * 16 || scales.length != blocks || centres.length != blocks) {
    throw std::logic_error("a matrix has another size");
  }
  for (size_t index = 2; index <= 4; index++) keep(args.env(), handle.sources, args.value(index));
  napi_value promise = beginRequest(handle);
  handle.runtime->packMatrix(
      weight, {Format::q4, shape.rows, shape.columns, nullptr, nullptr, nullptr, nibbles.data, scales.data, centres.data});
  return promise;
}

// memory(handle) → {weightBytes, kvBytes, scratchBytes}; all weights must have been set.
napi_value memory(Args& args) {
  Handle& handle = idleHandleOf(args);
  Model& model = handle.runtime->model();
  if (!model.complete()) throw std::logic_error("a weight has not been set");
  napi_value result;
  check(args.env(), napi_create_object(args.env(), &result));
  const auto set = [&](const char* name, size_t bytes) {
    setProperty(args.env(), result, name, number(args.env(), static_cast<double>(bytes)));
  };
  set("weightBytes", model.weightBytes());
  set("kvBytes", model.kv.memory.size());
  set("scratchBytes", model.work.memory.size() + handle.runtime->sampler().scratchBytes());
  return result;
}

// bind(handle, schedule, columns, argmax, argmaxLogit, runnerUpLogit, logits): the arrays of that schedule's batches from now on.
napi_value bind(Args& args) {
  Handle& handle = idleHandleOf(args);
  const int32_t schedule = args.integer(1);
  if (schedule != 0 && schedule != 1) throw std::logic_error("unknown schedule");
  BatchMemory& batch = handle.batches[schedule];
  dropReferences(args.env(), batch.references);
  batch.columns = args.ints(2);
  batch.argmax = args.ints(3);
  batch.argmaxLogit = args.floats(4);
  batch.runnerUpLogit = args.floats(5);
  batch.logits = args.floats(6);
  for (size_t i = 2; i <= 6; i++) keep(args.env(), batch.references, args.value(i));
  return nullptr;
}

// The columns, as src/step-memory.ts writes them.
BatchView viewOf(const Model& model, const BatchMemory& memory, Schedule schedule) {
  constexpr size_t kHeader = 4;
  if (memory.columns.length < kHeader) throw std::logic_error("a batch has no memory");
  const int32_t* at = memory.columns.data;
  BatchView view{};
  view.schedule = schedule;
  view.rowCount = at[0];
  view.sequenceCount = at[1];
  view.outputCount = at[2];
  const int32_t blockTotal = at[3];
  if (view.rowCount < 1 || view.rowCount > model.program.shape.maxRows || view.sequenceCount < 1 ||
      view.sequenceCount > view.rowCount || view.outputCount < 0 || view.outputCount > view.rowCount || blockTotal < 1) {
    throw std::logic_error("a batch has impossible counts");
  }
  const size_t used = kHeader + 2 * (static_cast<size_t>(view.rowCount) + view.sequenceCount + 1 + view.outputCount) + blockTotal;
  if (used > memory.columns.length) throw std::logic_error("a batch does not fit its memory");
  at += kHeader;
  view.tokens = at;
  view.positions = view.tokens + view.rowCount;
  view.rowStarts = view.positions + view.rowCount;
  view.blockStarts = view.rowStarts + view.sequenceCount + 1;
  view.outputRows = view.blockStarts + view.sequenceCount + 1;
  view.outputKinds = view.outputRows + view.outputCount;
  view.blocks = view.outputKinds + view.outputCount;
  size_t logitsRows = 0;
  for (int32_t i = 0; i < view.outputCount; i++) logitsRows += view.outputKinds[i];
  const auto outputs = static_cast<size_t>(view.outputCount);
  if (memory.argmax.length < outputs || memory.argmaxLogit.length < outputs ||
      memory.runnerUpLogit.length < outputs || memory.logits.length < logitsRows * model.program.shape.vocabSize) {
    throw std::logic_error("results do not fit their memory");
  }
  view.argmax = memory.argmax.data;
  view.argmaxLogit = memory.argmaxLogit.data;
  view.runnerUpLogit = memory.runnerUpLogit.data;
  view.logits = memory.logits.data;
  return view;
}

// The rope tables must have been extended to the positions of a batch.
void checkReach(const Model& model, const BatchView& batch) {
  for (int32_t s = 0; s < batch.sequenceCount; s++) {
    const int32_t last = batch.positions[batch.rowStarts[s + 1] - 1];
    for (const Model::Rope& rope : model.ropes) {
      if (last >= rope.reach) throw std::logic_error("a rope table does not reach the positions of a batch");
    }
  }
}

// forward(handle, hasFast, hasCanonical) → Promise; the columns stand in the bound arrays.
napi_value forward(Args& args) {
  Handle& handle = idleHandleOf(args);
  const bool hasFast = args.boolean(1);
  const bool hasCanonical = args.boolean(2);
  Model& model = handle.runtime->model();
  BatchView fast{};
  BatchView canonical{};
  if (hasFast) fast = viewOf(model, handle.batches[0], Schedule::fast);
  if (hasCanonical) canonical = viewOf(model, handle.batches[1], Schedule::canonical);
  if (hasFast) checkReach(model, fast);
  if (hasCanonical) checkReach(model, canonical);
  napi_value promise = beginRequest(handle);
  handle.runtime->runStep(hasCanonical ? &canonical : nullptr, hasFast ? &fast : nullptr);
  return promise;
}

// A row's words in `draws`.
struct DrawWords {
  double temperature, topK, topP, minP, seed, outputIndex, topLogprobs, adjustedCount;
};
constexpr size_t kDrawWords = sizeof(DrawWords) / sizeof(double);

// The rows of a call of sample, which stand in the arrays of its arguments from the fourth on.
std::vector<SampleRow> sampleRowsOf(Args& args, int32_t vocabSize) {
  const auto logits = args.rows(3);
  const auto draws = args.doubles(4);
  const auto ids = args.ints(5);
  const auto values = args.doubles(6);
  const auto tokens = args.ints(7);
  const auto normalizers = args.doubles(8);
  const auto topIds = args.ints(9);
  const size_t count = logits.size();
  if (count == 0 || count > kMaxTasks || draws.length < count * kDrawWords || ids.length != values.length || tokens.length < count ||
      normalizers.length < count || topIds.length < count * maxTopLogprobs) {
    throw std::logic_error("draws do not fit their memory");
  }
  std::vector<SampleRow> rows(count);
  size_t adjusted = 0;
  for (size_t i = 0; i < count; i++) {
    const auto* words = reinterpret_cast<const DrawWords*>(draws.data + i * kDrawWords);
    const auto adjustedCount = static_cast<size_t>(words->adjustedCount);
    const auto topLogprobs = static_cast<int32_t>(words->topLogprobs);
    if (logits[i].length != static_cast<size_t>(vocabSize) || adjustedCount > std::min<size_t>(ids.length - adjusted, vocabSize) ||
        topLogprobs > std::min(maxTopLogprobs, vocabSize)) {
      throw std::logic_error("a draw has impossible counts");
    }
    for (size_t a = adjusted; a < adjusted + adjustedCount; a++) {
      if (ids.data[a] < 0 || ids.data[a] >= vocabSize) throw std::logic_error("an adjusted token is outside the vocabulary");
    }
    rows[i] = {{logits[i].data, vocabSize, ids.data + adjusted, values.data + adjusted, static_cast<int32_t>(adjustedCount), words->temperature,
                words->topK, words->topP, words->minP, words->seed, static_cast<uint32_t>(static_cast<uint64_t>(words->outputIndex))},
               topLogprobs, tokens.data + i, normalizers.data + i, topIds.data + i * maxTopLogprobs};
    adjusted += adjustedCount;
  }
  return rows;
}

// sample(handle, isa, here, logits, draws, adjustedIds, adjustedValues, tokens, normalizers, topIds) → undefined, and all
// is done, where `here` says to draw on this thread; else → Promise
napi_value sample(Args& args) {
  Handle& handle = idleHandleOf(args);
  args.kernels(1);
  const auto isa = static_cast<Isa>(args.integer(1));
  const bool here = args.boolean(2);
  Sampler& sampler = handle.runtime->sampler();
  sampler.begin(isa, sampleRowsOf(args, handle.runtime->model().program.shape.vocabSize));
  if (here) {
    sampler.runHere();
    return nullptr;
  }
  for (size_t i = 3; i <= 9; i++) keep(args.env(), handle.sources, args.value(i));
  napi_value promise = beginRequest(handle);
  handle.runtime->runDraws();
  return promise;
}

// close(handle) → Promise
napi_value close(Args& args) {
  Handle& handle = idleHandleOf(args);
  napi_value promise = beginRequest(handle);
  handle.closing = true;
  handle.runtime->close();
  return promise;
}

}  // namespace

void keep(napi_env env, std::vector<napi_ref>& references, napi_value value) {
  napi_ref reference;
  check(env, napi_create_reference(env, value, 1, &reference));
  references.push_back(reference);
}

Handle& handleOf(const Args& args) {
  void* data = nullptr;
  check(args.env(), napi_get_value_external(args.env(), args.value(0), &data));
  auto& handle = *static_cast<Handle*>(data);
  if (!handle.runtime || handle.closing) throw BindingError{"STET_ERR_BACKEND_CLOSED", "the backend is closed"};
  return handle;
}

Handle& idleHandleOf(const Args& args) {
  Handle& handle = handleOf(args);
  if (handle.deferred) throw BindingError{"STET_ERR_BACKEND_BUSY", "a request is running"};
  return handle;
}

napi_value beginRequest(Handle& handle) {
  napi_value promise;
  check(handle.env, napi_create_promise(handle.env, &handle.deferred, &promise));
  uint32_t count;
  check(handle.env, napi_reference_ref(handle.env, handle.self, &count));
  check(handle.env, napi_ref_threadsafe_function(handle.env, handle.completed));
  return promise;
}

void exportHandle(napi_env env, napi_value exports) {
  exportFunction(env, exports, "create", callback<create>);
  exportFunction(env, exports, "setVector", callback<setVector>);
  exportFunction(env, exports, "extendRope", callback<extendRope>);
  exportFunction(env, exports, "packBf16", callback<packBf16>);
  exportFunction(env, exports, "packQ8", callback<packQ8>);
  exportFunction(env, exports, "packQ4", callback<packQ4>);
  exportFunction(env, exports, "memory", callback<memory>);
  exportFunction(env, exports, "bind", callback<bind>);
  exportFunction(env, exports, "forward", callback<forward>);
  exportFunction(env, exports, "sample", callback<sample>);
  exportFunction(env, exports, "close", callback<close>);
}

}  // namespace stet::cpu
