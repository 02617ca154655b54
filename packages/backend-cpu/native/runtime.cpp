#include "runtime.h"

#include <exception>
#include <new>
#include <utility>

namespace stet::cpu {

Runtime::Runtime(const Kernels& kernels, Program program, int32_t threadCount, Completed completed, void* context)
    : model_(std::make_unique<Model>(kernels, std::move(program), threadCount)),
      step_(std::make_unique<StepJob>(*model_)),
      sampler_(std::make_unique<Sampler>(model_->program.shape.vocabSize, threadCount)),
      completed_(completed),
      context_(context),
      thread_([this] { serve(); }) {}

Runtime::~Runtime() { stop(); }

void Runtime::packMatrix(int32_t weight, const MatrixSource& source) {
  packWeight_ = weight;
  packSource_ = source;
  begin(Request::pack);
}

void Runtime::sumImage(uint64_t* sums) {
  sums_ = sums;
  begin(Request::sumImage);
}

void Runtime::readImage(ImageFile file, uint64_t* sums) {
  imageFile_ = file;
  sums_ = sums;
  begin(Request::readImage);
}

void Runtime::runStep(const BatchView* canonical, const BatchView* fast) {
  step_->begin(canonical, fast);
  begin(Request::step);
}

void Runtime::runDraws() { begin(Request::draws); }

void Runtime::close() {
  closing_ = true;
  begin(Request::close);
}

void Runtime::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  // While it closes, the model is the thread's alone.
  if (!closing_) step_->cancel();
  // A request that has not been taken yet is replaced; the thread looks at `stopping_` after every other.
  begin(Request::stop);
  thread_.join();
}

void Runtime::begin(Request request) {
  request_.store(request, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  request_.notify_one();
}

void Runtime::serve() {
  for (;;) {
    request_.wait(Request::none, std::memory_order_acquire);
    const Request request = request_.exchange(Request::none, std::memory_order_acq_rel);
    if (request == Request::stop || stopping_.load()) return;
    if (request == Request::none) continue;
    perform(request);
    if (stopping_.load()) return;
    completed_(context_);
    if (request == Request::close) return;
  }
}

void Runtime::perform(Request request) {
  outcome_ = {};
  try {
    switch (request) {
      case Request::pack:
        model_->packMatrix(packWeight_, packSource_);
        return;
      case Request::sumImage:
      case Request::readImage: {
        ImageSumsJob job(model_->image(), sums_, request == Request::readImage ? &imageFile_ : nullptr);
        model_->pool.run(job);
        job.requireRead();
        return;
      }
      case Request::step:
        model_->pool.run(*step_);
        return;
      case Request::draws:
        model_->pool.run(*sampler_);
        return;
      case Request::close:
        sampler_.reset();
        step_.reset();
        model_.reset();
        return;
      case Request::none:
      case Request::stop:
        return;
    }
  } catch (const std::bad_alloc&) {
    outcome_ = {"STET_ERR_OUT_OF_MEMORY", "memory for the packed weights could not be allocated"};
  } catch (const std::exception& error) {
    outcome_ = {"STET_ERR_BACKEND_FAILED", error.what()};
  }
}

}  // namespace stet::cpu
