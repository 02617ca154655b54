#include "sampler.h"

#include <algorithm>
#include <utility>

namespace stet::cpu {

Sampler::Sampler(int32_t vocabSize, int32_t threadCount)
    : vocabSize_(vocabSize),
      threadBytes_(samplingScratchBytes(vocabSize)),
      memory_(checkedProduct(threadBytes_, static_cast<size_t>(threadCount))) {}

void Sampler::begin(Isa isa, std::vector<SampleRow> rows) {
  isa_ = isa;
  rows_ = std::move(rows);
  started_ = false;
}

void Sampler::runHere() {
  for (int32_t row = 0; row < static_cast<int32_t>(rows_.size()); row++) runTask(row, 0);
}

int32_t Sampler::advance() { return std::exchange(started_, true) ? 0 : static_cast<int32_t>(rows_.size()); }

void Sampler::runTask(int32_t task, int32_t thread) {
  const SampleRow& row = rows_[task];
  *row.token = drawToken(isa_, row.draw, samplingScratchAt(memory_.data() + static_cast<size_t>(thread) * threadBytes_, vocabSize_));
  if (row.topLogprobs < 0) return;
  const Logprobs logprobs = logprobsOf(isa_, row.draw.logits, vocabSize_, row.topLogprobs);
  *row.normalizer = logprobs.normalizer;
  std::copy(logprobs.ids, logprobs.ids + row.topLogprobs, row.topIds);
}

}  // namespace stet::cpu
