// A model with a thread of its own that runs one request at a time, so that the caller's thread never waits.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "model.h"
#include "sampler.h"
#include "step.h"

namespace stet::cpu {

struct Outcome {
  // A code of the port's errors, empty after success.
  std::string code;
  std::string message;
};

class Runtime {
 public:
  // Called on the runtime's thread when a request has ended; the next request may be sent from then on.
  using Completed = void (*)(void* context);

  // Throws std::bad_alloc, std::system_error.
  Runtime(const Kernels& kernels, Program program, int32_t threadCount, Completed completed, void* context);
  // Cancels the request that runs and waits for the thread.
  ~Runtime();

  // Between requests only.
  Model& model() { return *model_; }
  Sampler& sampler() { return *sampler_; }
  const Outcome& outcome() const { return outcome_; }

  // Each begins a request; none may be running.
  void packMatrix(int32_t weight, const MatrixSource& source);
  // The checksums of the weights' image, sums (imageSumCount); `readImage` reads it from an open file.
  void sumImage(uint64_t* sums);
  void readImage(ImageFile file, uint64_t* sums);
  void runStep(const BatchView* canonical, const BatchView* fast);
  // The draws that the sampler has been set up for.
  void runDraws();
  // Frees the model and ends the threads; `completed` is called, then only the destructor is left.
  void close();
  // Cancels the request that runs, without its `completed` call, and waits for the thread.
  void stop();

 private:
  enum class Request : int32_t { none, pack, sumImage, readImage, step, draws, close, stop };

  void begin(Request request);
  void serve();
  void perform(Request request);

  std::unique_ptr<Model> model_;
  std::unique_ptr<StepJob> step_;
  std::unique_ptr<Sampler> sampler_;
  Completed completed_;
  void* context_;
  std::atomic<Request> request_{Request::none};
  std::atomic<bool> stopping_{false};
  bool closing_ = false;
  Outcome outcome_;
  int32_t packWeight_ = 0;
  MatrixSource packSource_{};
  uint64_t* sums_ = nullptr;
  ImageFile imageFile_{};
  std::thread thread_;
};

}  // namespace stet::cpu
