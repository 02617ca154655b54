// Draws tokens from rows of logits and takes their log-probabilities, as docs/SAMPLING.md defines them, bit for bit on
// every instruction set. All numbers are f64 unless they only rule tokens out; no operation is fused.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels.h"

namespace stet::cpu {

// Steps 4 to 9 of one draw.
struct Draw {
  const float* logits;  // (vocabSize)
  int32_t vocabSize;
  // Tokens whose logits penalties and biases have changed: their values stand for their logits. No token twice, any order.
  const int32_t* adjustedIds;      // (adjustedCount)
  const double* adjustedValues;    // (adjustedCount)
  int32_t adjustedCount;
  double temperature;  // 0: the largest
  double topK;         // 0: all; an integer
  double topP;
  double minP;
  double seed;  // an integer below 2^53
  uint32_t outputIndex;
};

constexpr int32_t maxTopLogprobs = 20;

struct Logprobs {
  double normalizer;  // a token's log-probability is its logit less this
  int32_t ids[maxTopLogprobs];  // the likeliest, best first
};

// What one draw works in; of one thread at a time.
struct SamplingScratch {
  int32_t* ids;             // (vocabSize), as all of them
  int32_t* adjustedIds;
  float* row;
  double* values;
  double* sorted;
  double* adjustedValues;
};

// Bytes of the scratch of one thread, a multiple of 64; and its parts in that much memory, 64-byte aligned.
size_t samplingScratchBytes(int32_t vocabSize);
SamplingScratch samplingScratchAt(std::byte* memory, int32_t vocabSize);

// The token drawn. The instruction set must be available.
int32_t drawToken(Isa isa, const Draw& draw, const SamplingScratch& scratch);

// Of a row of logits, with `topCount` likeliest tokens, at most maxTopLogprobs and vocabSize.
Logprobs logprobsOf(Isa isa, const float* logits, int32_t vocabSize, int32_t topCount);

// What a sampler does with vectors; sampling.cpp does the rest, with the instructions that every machine has.

// A row of logits and what a token needs to win.
struct GumbelScan {
  const float* logits;
  int32_t vocabSize;
  uint32_t key0;
  uint32_t key1;
  uint32_t outputIndex;
  float inverse;  // of the temperature
  float least;    // a logit below it is out
  float wanted;   // logit * inverse + bound of the noise must not be below it
};

constexpr int32_t maxScanTokens = 64;

// Consecutive tokens, some of which may win.
struct GumbelHits {
  int32_t firstToken;
  uint64_t mask;                 // bit i: token firstToken + i
  uint32_t words[maxScanTokens];  // their random words
};

// Shares of an estimated sum that come from tokens at most that far below the largest value.
constexpr int32_t estimateDepthCount = 4;
constexpr double estimateDepths[estimateDepthCount] = {4, 7, 10, 14};

struct MassEstimate {
  double total;
  double within[estimateDepthCount];
};

// Relative error of an estimate beside that of the distances: of its polynomial, and some more.
constexpr double estimateError = 2e-8;

struct SamplingSet {
  // The largest of count >= 1 values.
  float (*largest)(const float* values, int32_t count);
  // Indices of the values that are not below `least`, ascending; returns how many. `indices` (count)
  int32_t (*collect)(const float* values, int32_t count, float least, int32_t* indices);
  // About the sum of exp((values[i] - largest) * inverse) where the exponent is above -64.
  MassEstimate (*estimate)(const float* values, int32_t count, double largest, double inverse);
  // The sum of exp(values[i] - largest) in ascending order of i, exactly as defined.
  double (*sumOfExp)(const double* values, int32_t count, double largest);
  double (*sumOfExpOfRow)(const float* values, int32_t count, double largest);
  // Finds the first block of tokens at or after `token`, a multiple of `blockTokens`, that has hits; false at the end of
  // the row.
  int32_t blockTokens;
  bool (*nextHits)(const GumbelScan& scan, int32_t token, GumbelHits& hits);
};

extern const SamplingSet scalarSampling, avx2Sampling, avx512Sampling;

}  // namespace stet::cpu
