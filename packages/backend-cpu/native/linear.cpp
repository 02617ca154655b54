// Stages of linears: a task is a range of tiles of one unit for a set of rows of each group, so that one read of the
// weights serves both batches.
#include <algorithm>
#include <cmath>

#include "step.h"

namespace stet::cpu {
namespace {

// Nanoseconds that one weight takes, roughly: reading it, and using it for a row.
constexpr double kWeightNanoseconds = 0.08;
constexpr double kProductNanoseconds = 0.012;
// Weights of one task, in bytes: what stays in a second-level cache next to the inputs.
constexpr size_t kRangeBytes = size_t{256} << 10;

int32_t divideUp(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

}  // namespace

RowRange StepJob::rowsOfSet(int32_t count, int32_t set) {
  // Sets of equal size but for the last, in multiples of 16 rows.
  const int32_t sets = divideUp(count, kSetRows);
  const int32_t setRows = sets > 1 ? divideUp(divideUp(count, sets), 16) * 16 : count;
  const int32_t begin = std::min(count, set * setRows);
  return {begin, std::min(count, begin + setRows) - begin};
}

// Decides how many tiles of a unit are a task's.
void StepJob::setRange(int32_t unit, int64_t tiles, double nanosecondsPerTile, double targetNanoseconds, size_t tileBytes) {
  auto perRange = std::max<int64_t>(1, std::llround(targetNanoseconds / nanosecondsPerTile));
  perRange = std::min(perRange, std::max<int64_t>(1, static_cast<int64_t>(kRangeBytes / tileBytes)));
  // The tasks of all units and sets together stay below kMaxTasks.
  perRange = std::max<int64_t>(perRange, divideUp(tiles, kMaxTasks / (split_.sets * kMaxUnits)));
  perRange = std::min(perRange, tiles);
  split_.rangeCount[unit] = divideUp(tiles, perRange);
  split_.rangeTiles[unit] = divideUp(tiles, split_.rangeCount[unit]);
  split_.rangeCount[unit] = divideUp(tiles, split_.rangeTiles[unit]);
}

int32_t StepJob::setUpLinear() {
  const Program& program = model_.program;
  const Stage& current = stage();
  const int32_t tileRows = model_.kernels.tileRows;
  int32_t sets = 1;
  for (int32_t i = 0; i < groupCount_; i++) sets = std::max(sets, divideUp(groups_[i].rowCount, kSetRows));
  const double weightNanoseconds = kWeightNanoseconds + kProductNanoseconds * rowCount_ / sets;
  double total = 0;
  for (const LinearUnit& unit : current.units) {
    for (int32_t i = 0; i < unit.linearCount; i++) {
      const WeightShape& weight = program.weights[unit.linears[i].weight];
      total += static_cast<double>(weight.rows) * weight.columns * weightNanoseconds * sets;
    }
  }
  const double target = std::max(kTaskNanoseconds, total / (model_.pool.threadCount() * kTasksPerThread));
  split_.sets = sets;
  int32_t tasks = 0;
  for (size_t u = 0; u < current.units.size(); u++) {
    const LinearUnit& unit = current.units[u];
    const WeightShape& weight = program.weights[unit.linears[0].weight];
    const double perTile = static_cast<double>(unit.linearCount) * tileRows * weight.columns * weightNanoseconds;
    const size_t tileBytes = static_cast<size_t>(unit.linearCount) * tileRows * weight.columns * 2;
    setRange(static_cast<int32_t>(u), divideUp(weight.rows, tileRows), perTile, target, tileBytes);
    tasks += split_.rangeCount[u] * sets;
  }
  return tasks;
}

void StepJob::runLinear(int32_t task) {
  const Stage& current = stage();
  for (size_t u = 0; u < current.units.size(); u++) {
    const int32_t unitTasks = split_.rangeCount[u] * split_.sets;
    if (task < unitTasks) {
      const LinearUnit& unit = current.units[u];
      const WeightShape& weight = model_.program.weights[unit.linears[0].weight];
      const int32_t tiles = divideUp(weight.rows, model_.kernels.tileRows);
      const int32_t begin = task / split_.sets * split_.rangeTiles[u];
      runUnit(unit, begin, std::min(tiles, begin + split_.rangeTiles[u]), task % split_.sets);
      return;
    }
    task -= unitTasks;
  }
}

void StepJob::runUnit(const LinearUnit& unit, int32_t tileBegin, int32_t tileEnd, int32_t set) {
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
               rows.count, linear.bias < 0 ? nullptr : model_.vectors[linear.bias], tileBegin, tileEnd, output.row(row),
               output.stride);
    }
    if (unit.swigluOutput < 0) continue;
    const int32_t begin = tileBegin * k.tileRows;
    const int32_t count = std::min(tileEnd * k.tileRows, model_.program.bufferWidths[unit.swigluOutput]) - begin;
    const Buffer& gate = work.buffers[unit.linears[0].output];
    const Buffer& up = work.buffers[unit.linears[1].output];
    const Buffer& output = work.buffers[unit.swigluOutput];
    for (int32_t r = row; r < row + rows.count; r++) {
      k.swiglu(group.kernels, gate.row(r) + begin, up.row(r) + begin, count, output.row(r) + begin);
    }
  }
}

}  // namespace stet::cpu
