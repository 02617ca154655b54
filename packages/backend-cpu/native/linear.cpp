// Stages of linears: a task is a range of tiles of one unit for a set of rows of each group, so that one read of the
// weights serves both batches.
#include <algorithm>

#include "step.h"

namespace stet::cpu {
namespace {

// What linears take, roughly: nanoseconds to read a byte of weights, from memory, and to use a weight for a row.
constexpr double kByteNanoseconds = 0.04;
constexpr double kProductNanoseconds[] = {0.012, 0.006, 0.006};  // by Format
// A task of tiles: a small one, for claiming it and the first reads that nothing has asked for ahead cost some tenths of a
// microsecond, but what a thread may have to wait for at the end of a stage.
constexpr double kTileTaskNanoseconds = 1500;
// Weights of one task that reads them again, in bytes: what stays in a second-level cache next to the inputs.
constexpr size_t kRangeBytes = size_t{256} << 10;
// Kernels take so many tiles at once where rows are few.
constexpr int32_t kTilesAtOnce = 4;

int32_t divideUp(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

int32_t roundUpTiles(int32_t tiles) { return divideUp(tiles, kTilesAtOnce) * kTilesAtOnce; }

}  // namespace

RowRange StepJob::rowsOfSet(int32_t count, int32_t set) {
  // Sets of equal size but for the last, in multiples of 16 rows.
  const int32_t sets = divideUp(count, kSetRows);
  const int32_t setRows = sets > 1 ? divideUp(divideUp(count, sets), 16) * 16 : count;
  const int32_t begin = std::min(count, set * setRows);
  return {begin, std::min(count, begin + setRows) - begin};
}

// Of `linearCount` linears of one shape that are split alike, for `setRows` rows.
UnitTiles StepJob::tilesOf(const WeightShape& weight, int32_t linearCount, int32_t setRows, Reading reading) const {
  const Kernels& k = model_.kernels;
  const int32_t count = divideUp(weight.rows, k.tileRows);
  const size_t bytes = linearCount * k.matrixBytes(weight.format, weight.rows, weight.columns) / static_cast<size_t>(count);
  const double products = static_cast<double>(linearCount) * k.tileRows * weight.columns * setRows;
  const int32_t cached = static_cast<int32_t>(std::min<size_t>(kRangeBytes / bytes, static_cast<size_t>(count))) / kTilesAtOnce * kTilesAtOnce;
  return {count, reading == Reading::once ? count : std::max(1, cached),
          static_cast<double>(bytes) * kByteNanoseconds + products * kProductNanoseconds[static_cast<size_t>(weight.format)]};
}

// Splits the tiles of units into ranges, large ones first, so that weights are read in long runs, and small ones last, so
// that threads end together. Returns the number of tasks.
int32_t StepJob::splitTiles(const UnitTiles* units, int32_t unitCount, int32_t sets) {
  double left = 0;  // nanoseconds of what is not in a range yet
  int32_t tiles = 0;
  for (int32_t u = 0; u < unitCount; u++) {
    left += units[u].count * units[u].nanosecondsEach * sets;
    tiles += units[u].count;
  }
  // Every unit may end in a range of fewer tiles.
  const int32_t least = divideUp(tiles, kMaxRanges - kMaxUnits);
  const int32_t threads = model_.pool.threadCount();
  split_.sets = sets;
  split_.rangeCount = 0;
  for (int32_t u = 0; u < unitCount; u++) {
    const UnitTiles& unit = units[u];
    for (int32_t begin = 0; begin < unit.count;) {
      const double share = threads == 1 ? left : left / (2 * threads);
      const double target = std::max(kTileTaskNanoseconds, share) / unit.nanosecondsEach;
      int32_t count = std::max(least, std::min(unit.mostInRange, roundUpTiles(static_cast<int32_t>(std::min(target, 1e6)))));
      const int32_t rest = unit.count - begin - count;
      if (rest < 0 || (rest * unit.nanosecondsEach < kTileTaskNanoseconds / 2 && count + rest <= unit.mostInRange)) count += rest;
      split_.ranges[split_.rangeCount++] = {u, begin, begin + count};
      begin += count;
      left -= count * unit.nanosecondsEach * sets;
    }
  }
  return split_.rangeCount * sets;
}

int32_t StepJob::setUpLinear() {
  const Stage& current = stage();
  int32_t sets = 1;
  for (int32_t i = 0; i < groupCount_; i++) sets = std::max(sets, divideUp(groups_[i].rowCount, kSetRows));
  const Reading reading = sets * groupCount_ > 1 ? Reading::again : Reading::once;
  UnitTiles units[kMaxUnits];
  for (size_t u = 0; u < current.units.size(); u++) {
    const LinearUnit& unit = current.units[u];
    units[u] = tilesOf(model_.program.weights[unit.linears[0].weight], unit.linearCount, divideUp(rowCount_, sets), reading);
  }
  return splitTiles(units, static_cast<int32_t>(current.units.size()), sets);
}

void StepJob::runLinear(int32_t task) {
  const TileRange& range = split_.ranges[task / split_.sets];
  runUnit(stage().units[static_cast<size_t>(range.unit)], range, task % split_.sets);
}

void StepJob::runUnit(const LinearUnit& unit, const TileRange& range, int32_t set) {
  const Kernels& k = model_.kernels;
  const Workspace& work = model_.work;
  for (int32_t g = 0; g < groupCount_; g++) {
    const RowGroup& group = groups_[g];
    const RowRange rows = rowsOfSet(group.rowCount, set);
    if (rows.count == 0) continue;
    const int32_t row = group.firstRow + rows.first;
    for (int32_t i = 0; i < unit.linearCount; i++) {
      const Linear& linear = unit.linears[i];
      const Buffer& output = work.buffers[linear.output];
      k.linear(model_.matrices[linear.weight], group.kernels, work.slots[linear.slot].row(group.kernels, rows.first),
               rows.count, group.rowCount, linear.bias < 0 ? nullptr : model_.vectors[linear.bias], range.begin, range.end, output.row(row),
               output.stride);
    }
    if (unit.swigluOutput < 0) continue;
    const int32_t begin = range.begin * k.tileRows;
    const int32_t count = std::min(range.end * k.tileRows, model_.program.bufferWidths[unit.swigluOutput]) - begin;
    const Buffer& gate = work.buffers[unit.linears[0].output];
    const Buffer& up = work.buffers[unit.linears[1].output];
    const Buffer& output = work.buffers[unit.swigluOutput];
    for (int32_t r = row; r < row + rows.count; r++) {
      k.swiglu(group.kernels, gate.row(r) + begin, up.row(r) + begin, count, output.row(r) + begin);
    }
  }
}

}  // namespace stet::cpu
