// Draws and log-probabilities from the vector parts of an instruction set; and those parts in plain C++.
#include "sampling.h"

#include <algorithm>
#include <numeric>

#include "sampling.inl.h"
#include "sampling_candidates.h"
#include "sampling_lanes_scalar.h"
#include "sampling_math.h"

namespace stet::cpu {

const SamplingSet scalarSampling = makeSamplingSet<ScalarSamplingLanes>();

namespace {

// Values further below the largest than this are left out.
constexpr double kReach = 64;

const SamplingSet& setOf([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512Sampling;
  if (isa == Isa::avx2) return avx2Sampling;
#endif
  return scalarSampling;
}

// The lowest index of a value that is in the row.
int32_t indexOf(const SamplingSet& set, const float* row, int32_t count, float value, int32_t* scratch) {
  constexpr int32_t chunk = 1024;
  for (int32_t begin = 0;; begin += chunk) {
    if (set.collect(row + begin, std::min(chunk, count - begin), value, scratch) > 0) return begin + scratch[0];
  }
}

// exp(-d) for 0 <= d < kReach, to 2.5e-9 of it: entries, and a cubic between them.
struct ExpTable {
  static constexpr int32_t stepsOfUnit = 64;
  static constexpr int32_t stepCount = static_cast<int32_t>(kReach) * stepsOfUnit;
  double entries[stepCount];

  ExpTable() {
    for (int32_t i = 0; i < stepCount; i++) entries[i] = expOf(-static_cast<double>(i) / stepsOfUnit);
  }
  // Of entry `step` and the rest r, below 1 / stepsOfUnit.
  double expOfMinus(int32_t step, double r) const { return entries[step] * (1 - r * (1 - r * (0.5 - r * (1.0 / 6)))); }
};

const ExpTable& expTable() {
  static const ExpTable table;
  return table;
}

// The token of the largest value + noise so far, the lowest id among equals.
struct Race {
  int32_t winner = -1;
  double winning = -HUGE_VAL;

  bool enter(int32_t token, double value, uint32_t word) {
    if (value + gumbelBound(word) < winning) return false;
    const double score = value + gumbelOf(word);
    if (score < winning || (score == winning && token >= winner)) return false;
    winner = token;
    winning = score;
    return true;
  }
};

class TokenDraw {
 public:
  TokenDraw(const SamplingSet& set, const Draw& draw, const SamplingScratch& scratch)
      : set_(set),
        draw_(draw),
        scratch_(scratch),
        key0_(static_cast<uint32_t>(static_cast<uint64_t>(draw.seed))),
        key1_(static_cast<uint32_t>(static_cast<uint64_t>(draw.seed) >> 32)),
        row_{draw.logits, draw.vocabSize, draw.temperature, nullptr, nullptr, 0} {
    if (draw.adjustedCount > 0) takeAdjusted();
    findBest();
  }

  int32_t run() {
    if (draw_.temperature == 0) return best_;
    largest_ = largestLogit_ / draw_.temperature;
    const double reach = largest_ - kReach;
    const double floor = draw_.minP > 0 ? std::max(reach, largest_ + lnOf(draw_.minP)) : reach;
    const bool hasTopK = draw_.topK > 0 && draw_.topK < draw_.vocabSize;
    if (!hasTopK && draw_.topP >= 1) return drawFromAll(floor);
    Candidates candidates(set_, row_, scratch_);
    if (hasTopK) {
      candidates.collectBest(reach, static_cast<int32_t>(draw_.topK));
      if (draw_.topP < 1) keepTopP(candidates);
    } else {
      collectTopP(candidates);
    }
    return drawFrom(candidates, floor);
  }

 private:
  // Adjusted tokens leave the row and stand beside it, in ascending order.
  void takeAdjusted() {
    const int32_t count = draw_.adjustedCount;
    std::copy(draw_.logits, draw_.logits + draw_.vocabSize, scratch_.row);
    int32_t* const order = scratch_.ids;
    std::iota(order, order + count, 0);
    std::sort(order, order + count, [this](int32_t a, int32_t b) { return draw_.adjustedIds[a] < draw_.adjustedIds[b]; });
    for (int32_t i = 0; i < count; i++) {
      const int32_t id = draw_.adjustedIds[order[i]];
      scratch_.row[id] = kNoLogit;
      scratch_.adjustedIds[i] = id;
      scratch_.adjustedValues[i] = draw_.adjustedValues[order[i]];
    }
    row_.logits = scratch_.row;
    row_.adjustedIds = scratch_.adjustedIds;
    row_.adjustedValues = scratch_.adjustedValues;
    row_.adjustedCount = count;
  }

  void findBest() {
    const float largest = set_.largest(row_.logits, row_.vocabSize);
    largestLogit_ = largest;
    best_ = indexOf(set_, row_.logits, row_.vocabSize, largest, scratch_.ids);
    for (int32_t i = 0; i < row_.adjustedCount; i++) {
      const double value = row_.adjustedValues[i];
      if (value < largestLogit_ || (value == largestLogit_ && row_.adjustedIds[i] > best_)) continue;
      largestLogit_ = value;
      best_ = row_.adjustedIds[i];
    }
  }

  int32_t drawFromAll(double floor) const {
    Race race;
    race.enter(best_, largest_, wordOf(best_));
    for (int32_t i = 0; i < row_.adjustedCount; i++) enter(race, row_.adjustedIds[i], row_.adjustedValues[i] / draw_.temperature, floor);
    GumbelScan scan{};
    scan.logits = row_.logits;
    scan.vocabSize = row_.vocabSize;
    scan.key0 = key0_;
    scan.key1 = key1_;
    scan.outputIndex = draw_.outputIndex;
    scan.inverse = static_cast<float>(1 / draw_.temperature);
    narrow(scan, race, floor);
    GumbelHits hits;
    for (int32_t token = 0; set_.nextHits(scan, token, hits); token = hits.firstToken + set_.blockTokens) {
      bool isNew = false;
      for (uint64_t mask = hits.mask; mask != 0; mask &= mask - 1) {
        const int bit = std::countr_zero(mask);
        const double value = row_.logits[hits.firstToken + bit] / draw_.temperature;
        if (value >= floor) isNew |= race.enter(hits.firstToken + bit, value, hits.words[bit]);
      }
      if (isNew) narrow(scan, race, floor);
    }
    return race.winner;
  }

  // What rules a token out, in f32: the slack is more than all that rounding can do to a score that wins.
  void narrow(GumbelScan& scan, const Race& race, double floor) const {
    const double slack = 1e-3 + (std::fabs(largest_) + kReach) * 0x1p-20;
    scan.wanted = floatBelow(race.winning - slack);
    scan.least = floatBelow(leastLogit(std::max(floor, race.winning - gumbelMax - slack), draw_.temperature));
  }

  int32_t drawFrom(const Candidates& candidates, double floor) const {
    Race race;
    race.enter(best_, largest_, wordOf(best_));
    // `best_` has the largest logit, but division may have made others its equals that alone remain.
    const bool isIn = std::binary_search(candidates.ids, candidates.ids + candidates.count, best_);
    if (!isIn) race = {};
    for (int32_t i = 0; i < candidates.count; i++) enter(race, candidates.ids[i], candidates.values[i], floor);
    return race.winner;
  }

  void enter(Race& race, int32_t token, double value, double floor) const {
    if (!(value >= floor) || value + gumbelMax < race.winning) return;
    race.enter(token, value, wordOf(token));
  }

  // The fewest best whose share of all the probability reaches p. Only the sum of all probabilities needs every token,
  // and an estimate of it with a bound of its error nearly always says where to stop.
  void collectTopP(Candidates& candidates) const {
    MassEstimate estimate = set_.estimate(row_.logits, row_.vocabSize, largestLogit_, 1 / draw_.temperature);
    for (int32_t i = 0; i < row_.adjustedCount; i++) {
      const double distance = largest_ - row_.adjustedValues[i] / draw_.temperature;
      if (!(distance <= kReach)) continue;
      const double mass = expOf(-distance);
      estimate.total += mass;
      for (int d = 0; d < estimateDepthCount; d++) estimate.within[d] += distance < estimateDepths[d] ? mass : 0;
    }
    const double error = estimateError + (std::fabs(largest_) + kReach) * 0x1p-49 + draw_.vocabSize * 0x1p-52;
    const double high = draw_.topP * estimate.total * (1 + error);
    double depth = kReach;
    for (int d = estimateDepthCount - 1; d >= 0; d--) depth = estimate.within[d] >= high ? estimateDepths[d] : depth;
    candidates.collect(largest_ - depth - 0x1p-10);
    if (candidates.count > kFewCandidates) candidates.keepFrom(largest_ - depthOf(candidates, high));
    const int32_t kept = candidates.countReaching(draw_.topP * estimate.total * (1 - error), high, largest_);
    if (kept >= 0) {
      candidates.keepBest(kept);
    } else {
      candidates.collect(largest_ - kReach);
      keepTopP(candidates);
    }
  }

  // How far below the largest value the best candidates with at least this mass reach; by bins, so that few are sorted.
  double depthOf(const Candidates& candidates, double mass) const {
    const ExpTable& table = expTable();
    constexpr int32_t stepsOfBin = 4;
    constexpr int32_t binCount = ExpTable::stepCount / stepsOfBin + 1;
    double bins[binCount] = {};
    for (int32_t i = 0; i < candidates.count; i++) {
      const double steps = (largest_ - candidates.values[i]) * ExpTable::stepsOfUnit;
      if (!(steps < ExpTable::stepCount)) continue;
      const auto step = static_cast<int32_t>(steps);
      bins[step / stepsOfBin] += table.expOfMinus(step, (steps - step) / ExpTable::stepsOfUnit);
    }
    double sum = 0;
    for (int32_t bin = 0; bin < binCount; bin++) {
      sum += bins[bin];
      if (sum * (1 - estimateError) >= mass) return static_cast<double>((bin + 1) * stepsOfBin) / ExpTable::stepsOfUnit;
    }
    return kReach + 1;
  }

  void keepTopP(Candidates& candidates) const {
    const double wanted = draw_.topP * candidates.sumOfExp(largest_);
    const int32_t kept = candidates.countReaching(wanted, wanted, largest_);
    // Rounding: all of them, summed by rank, may not reach a share that is nearly 1. Then all remain.
    if (kept >= 0) candidates.keepBest(kept);
  }

  uint32_t wordOf(int32_t token) const { return noiseWord(key0_, key1_, draw_.outputIndex, token); }

  static constexpr int32_t kFewCandidates = 256;

  const SamplingSet& set_;
  const Draw& draw_;
  const SamplingScratch& scratch_;
  const uint32_t key0_;
  const uint32_t key1_;
  DrawRow row_;
  double largestLogit_ = 0;
  double largest_ = 0;
  int32_t best_ = 0;
};

constexpr size_t roundUpTo64(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

size_t samplingScratchBytes(int32_t vocabSize) {
  const auto count = static_cast<size_t>(vocabSize);
  return 3 * roundUpTo64(count * sizeof(int32_t)) + 3 * roundUpTo64(count * sizeof(double));
}

SamplingScratch samplingScratchAt(std::byte* memory, int32_t vocabSize) {
  const size_t words = roundUpTo64(static_cast<size_t>(vocabSize) * sizeof(int32_t));
  const size_t doubles = roundUpTo64(static_cast<size_t>(vocabSize) * sizeof(double));
  SamplingScratch scratch{};
  scratch.ids = reinterpret_cast<int32_t*>(memory);
  scratch.adjustedIds = reinterpret_cast<int32_t*>(memory + words);
  scratch.row = reinterpret_cast<float*>(memory + 2 * words);
  scratch.values = reinterpret_cast<double*>(memory + 3 * words);
  scratch.sorted = reinterpret_cast<double*>(memory + 3 * words + doubles);
  scratch.adjustedValues = reinterpret_cast<double*>(memory + 3 * words + 2 * doubles);
  return scratch;
}

int32_t drawToken(Isa isa, const Draw& draw, const SamplingScratch& scratch) { return TokenDraw(setOf(isa), draw, scratch).run(); }

Logprobs logprobsOf(Isa isa, const float* logits, int32_t vocabSize, int32_t topCount) {
  const SamplingSet& set = setOf(isa);
  const float largest = set.largest(logits, vocabSize);
  Logprobs result{};
  result.normalizer = largest + lnOf(set.sumOfExpOfRow(logits, vocabSize, largest));
  constexpr int32_t chunk = 1024;
  int32_t indices[chunk];
  int32_t count = 0;
  int32_t* const ids = result.ids;
  for (int32_t begin = 0; topCount > 0 && begin < vocabSize; begin += chunk) {
    const float least = count == topCount ? logits[ids[count - 1]] : kNoLogit;
    const int32_t found = set.collect(logits + begin, std::min(chunk, vocabSize - begin), least, indices);
    for (int32_t i = 0; i < found; i++) {
      const int32_t id = begin + indices[i];
      if (count == topCount && !(logits[id] > logits[ids[count - 1]])) continue;
      int32_t at = count < topCount ? count++ : count - 1;
      for (; at > 0 && logits[id] > logits[ids[at - 1]]; at--) ids[at] = ids[at - 1];
      ids[at] = id;
    }
  }
  return result;
}

}  // namespace stet::cpu
