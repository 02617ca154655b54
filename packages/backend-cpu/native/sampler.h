// The draws of one step as a job of the pool, a task for each row of logits.
#pragma once
#include <cstdint>
#include <vector>

#include "memory.h"
#include "pool.h"
#include "sampling.h"

namespace stet::cpu {

// A draw and where its answers go.
struct SampleRow {
  Draw draw;
  int32_t topLogprobs;  // -1: no log-probabilities
  int32_t* token;
  double* normalizer;
  int32_t* topIds;  // (maxTopLogprobs)
};

class Sampler : public Job {
 public:
  // Throws std::bad_alloc.
  Sampler(int32_t vocabSize, int32_t threadCount);

  // Sets up the draws of a step. Pointers must stay valid until they have been made.
  void begin(Isa isa, std::vector<SampleRow> rows);
  // Makes them all on this thread; the pool must not be running.
  void runHere();

  int32_t advance() override;
  void runTask(int32_t task, int32_t thread) override;

  size_t scratchBytes() const { return memory_.size(); }

 private:
  const int32_t vocabSize_;
  const size_t threadBytes_;
  Region memory_;
  Isa isa_ = Isa::scalar;
  std::vector<SampleRow> rows_;
  bool started_ = false;
};

}  // namespace stet::cpu
