// The tokens that remain in a draw, in two columns: ids ascending, and their values, logits divided by the temperature.
// Rank is by value, the lower id first among equals; every filter keeps the first by rank. For sampling.cpp alone.
#pragma once
#include <algorithm>
#include <functional>

#include "sampling.h"
#include "sampling_math.h"

namespace stet::cpu {
namespace {

// A row as the filters see it: logits, and beside them those that were adjusted, which are -infinity in the row.
struct DrawRow {
  const float* logits;
  int32_t vocabSize;
  double temperature;
  const int32_t* adjustedIds;    // ascending
  const double* adjustedValues;  // logits
  int32_t adjustedCount;
};

class Candidates {
 public:
  Candidates(const SamplingSet& set, const DrawRow& row, const SamplingScratch& scratch)
      : set_(set), row_(row), ids(scratch.ids), values(scratch.values), sorted_(scratch.sorted) {}

  // All tokens whose value is at least `floor`.
  void collect(double floor) {
    const int32_t found = set_.collect(row_.logits, row_.vocabSize, floatBelow(leastLogit(floor, row_.temperature)), ids);
    count = 0;
    for (int32_t i = 0; i < found; i++) push(ids[i], floor);
    mergeAdjusted(floor);
  }

  // The k best of the tokens whose value is at least `floor`.
  void collectBest(double floor, int32_t k) {
    double worst = floor;
    float least = floatBelow(leastLogit(worst, row_.temperature));
    count = 0;
    int64_t limit = limitAfter(0, k);
    for (int32_t begin = 0; begin < row_.vocabSize; begin += kChunk) {
      int32_t* const indices = ids + count;
      const int32_t found = set_.collect(row_.logits + begin, std::min(kChunk, row_.vocabSize - begin), least, indices);
      for (int32_t i = 0; i < found; i++) {
        push(begin + indices[i], worst);
        if (count < limit) continue;
        keepBest(k);
        worst = *std::min_element(values, values + count);
        least = floatBelow(leastLogit(worst, row_.temperature));
        limit = limitAfter(count, k);
      }
    }
    mergeAdjusted(floor);
    keepBest(k);
  }

  void keepBest(int32_t k) {
    if (k >= count) return;
    std::copy(values, values + count, sorted_);
    std::nth_element(sorted_, sorted_ + (count - k), sorted_ + count);
    const double last = sorted_[count - k];
    int32_t equals = k;
    for (int32_t i = 0; i < count; i++) equals -= values[i] > last;
    keepIf([&](double value) { return value > last || (value == last && equals-- > 0); });
  }

  // Drops what is below `floor`.
  void keepFrom(double floor) {
    keepIf([&](double value) { return value >= floor; });
  }

  // How many of the best it takes until the sum of exp(value - largest), by rank, reaches a share that is known to be
  // between `low` and `high`; -1 where that depends on what it is, or if all of them do not reach it.
  int32_t countReaching(double low, double high, double largest) const {
    std::copy(values, values + count, sorted_);
    std::sort(sorted_, sorted_ + count, std::greater<>());
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
      sum += expOf(sorted_[i] - largest);
      if (sum >= low) return sum >= high ? i + 1 : -1;
    }
    return -1;
  }

  double sumOfExp(double largest) const { return set_.sumOfExp(values, count, largest); }

 private:
  static constexpr int32_t kChunk = 4096;

  // When to drop all but the k best: seldom enough for finding them to cost little.
  static int64_t limitAfter(int32_t count, int32_t k) {
    return std::max({2 * static_cast<int64_t>(count), 4 * static_cast<int64_t>(k), int64_t{256}});
  }

  void push(int32_t id, double floor) {
    const double value = row_.logits[id] / row_.temperature;
    if (!(value >= floor)) return;
    ids[count] = id;
    values[count++] = value;
  }

  // Puts the adjusted tokens of at least `floor` to their places.
  void mergeAdjusted(double floor) {
    int32_t added = 0;
    for (int32_t i = 0; i < row_.adjustedCount; i++) added += row_.adjustedValues[i] / row_.temperature >= floor;
    int32_t from = count - 1;
    int32_t to = count + added - 1;
    count += added;
    for (int32_t i = row_.adjustedCount - 1; i >= 0; i--) {
      const double value = row_.adjustedValues[i] / row_.temperature;
      if (!(value >= floor)) continue;
      for (; from >= 0 && ids[from] > row_.adjustedIds[i]; from--, to--) ids[to] = ids[from], values[to] = values[from];
      ids[to] = row_.adjustedIds[i];
      values[to--] = value;
    }
  }

  template <class Predicate> void keepIf(Predicate keeps) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
      if (!keeps(values[i])) continue;
      ids[kept] = ids[i];
      values[kept++] = values[i];
    }
    count = kept;
  }

  const SamplingSet& set_;
  const DrawRow& row_;

 public:
  int32_t* const ids;
  double* const values;
  int32_t count = 0;

 private:
  double* const sorted_;
};

}  // namespace
}  // namespace stet::cpu
