// The batch-shaped study mode: how many parts a sum is cut into, by the shape of the batch. Libraries for GPUs choose so,
// to occupy the device whatever the batch is: cuBLAS cuts the inputs of a small matrix product (split-K), flash-decoding cuts
// the context (split-KV). Parts are summed by themselves and then added in order, so a row's bits depend on its company.
// Functions of shapes alone: equal batches have equal bits.
#pragma once
#include <cstdint>

namespace stet::cpu {

// Inputs are cut at multiples of these, as matrix units take them.
constexpr int32_t linearPartUnit = 32;

// Most parts that the inputs of a linear are cut into, by the rows of the whole batch.
constexpr int32_t linearParts(int32_t batchRows) { return batchRows <= 1 ? 8 : batchRows <= 8 ? 4 : batchRows <= 32 ? 2 : 1; }

// Inputs of one part; the last part has the rest.
constexpr int32_t linearPartInputs(int32_t columns, int32_t batchRows) {
  const int32_t units = (columns + linearPartUnit - 1) / linearPartUnit;
  const int32_t parts = linearParts(batchRows);
  return (units + parts - 1) / parts * linearPartUnit;
}

// Parts of all contexts that the device is taken to work on at once.
constexpr int32_t attentionPlaces = 64;

// Chunks of 64 positions in one part of a context of `chunkCount` chunks, where `batchTasks` tasks (up to 16 rows of one
// sequence with one K/V head) share the device: as many parts as there are places for each task.
constexpr int32_t attentionPartChunks(int32_t chunkCount, int32_t batchTasks) {
  const int32_t places = batchTasks < attentionPlaces ? attentionPlaces / batchTasks : 1;
  const int32_t parts = places < chunkCount ? places : chunkCount;
  return (chunkCount + parts - 1) / parts;
}

}  // namespace stet::cpu
