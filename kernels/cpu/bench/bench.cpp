// Times the kernels of one instruction set on one thread: `bench [scalar|avx2|avx512]`.
// Fast and canonical runs alternate, so that noise of the machine meets both; the best of many short rounds is printed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../kernels.h"

namespace {

using namespace stet::cpu;

constexpr int rounds = 25;
constexpr double roundSeconds = 0.001;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, Free>;

Bytes allocate(size_t bytes) {
  Bytes memory(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

// Uniform in -1..1, the same on every machine.
struct Random {
  uint32_t state = 1;
  float next() {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
  }
  std::vector<float> vector(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = next();
    return values;
  }
};

template <class Run> double secondsOf(Run run) {
  using Clock = std::chrono::steady_clock;
  int calls = 0;
  const auto start = Clock::now();
  double elapsed = 0;
  do {
    run();
    calls++;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (elapsed < roundSeconds);
  return elapsed / calls;
}

struct Times {
  double fast;
  double canonical;
};

// Seconds of fast and canonical, alternating.
template <class Run> Times compare(Run run) {
  Times best{1e9, 1e9};
  for (int round = 0; round < rounds; round++) {
    best.fast = std::min(best.fast, secondsOf([&] { run(Schedule::fast); }));
    best.canonical = std::min(best.canonical, secondsOf([&] { run(Schedule::canonical); }));
  }
  return best;
}

MatrixSource randomMatrix(Format format, int rows, int columns, std::vector<uint16_t>& bits, std::vector<int8_t>& quants,
                          std::vector<float>& scales) {
  Random random;
  const size_t blocks = static_cast<size_t>((columns + 31) / 32);
  bits.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  quants.resize(static_cast<size_t>(rows) * blocks * 32);
  scales.assign(static_cast<size_t>(rows) * blocks, 0.0009765625f);
  for (uint16_t& value : bits) {
    const float x = random.next();
    uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    value = static_cast<uint16_t>(word >> 16);
  }
  for (int8_t& quant : quants) quant = static_cast<int8_t>(random.next() * 127);
  return {format, rows, columns, bits.data(), quants.data(), scales.data()};
}

void benchLinear(const Kernels& kernels, Format format, int columns, int rows) {
  std::vector<uint16_t> bits;
  std::vector<int8_t> quants;
  std::vector<float> scales;
  const MatrixSource source = randomMatrix(format, rows, columns, bits, quants, scales);
  const int tiles = (rows + kernels.tileRows - 1) / kernels.tileRows;
  const Bytes packed = allocate(kernels.matrixBytes(format, rows, columns));
  kernels.packMatrix(source, 0, tiles, packed.get());
  const Matrix matrix{format, rows, columns, packed.get()};
  for (const int rowCount : {1, 4, 8, 16, 64}) {
    const std::vector<float> input = Random{}.vector(static_cast<size_t>(rowCount) * static_cast<size_t>(columns));
    std::vector<float> output(static_cast<size_t>(rowCount) * static_cast<size_t>(rows));
    Bytes prepared[2];
    for (const Schedule schedule : {Schedule::fast, Schedule::canonical}) {
      const size_t bytes = kernels.inputBytes(format, schedule, columns);
      Bytes& target = prepared[static_cast<int>(schedule)];
      target = allocate(bytes * static_cast<size_t>(rowCount));
      for (int r = 0; r < rowCount; r++) {
        kernels.prepareInput(format, schedule, input.data() + static_cast<size_t>(r) * static_cast<size_t>(columns), columns,
                             target.get() + static_cast<size_t>(r) * bytes);
      }
    }
    const Times times = compare([&](Schedule schedule) {
      kernels.linear(matrix, schedule, prepared[static_cast<int>(schedule)].get(), rowCount, rowCount, nullptr, 0, tiles, output.data(), rows);
    });
    const double operations = 2e-9 * rowCount * static_cast<double>(rows) * columns;
    std::printf("| linear %s %dx%d | %d | %.1f | %.1f | %.2f |\n", format == Format::bf16 ? "bf16" : "q8", columns, rows, rowCount,
                operations / times.fast, operations / times.canonical, times.canonical / times.fast);
  }
}

void printTimes(const char* name, int rowCount, const Times& times) {
  std::printf("| %s | %d | %.3f us | %.3f us | %.2f |\n", name, rowCount, times.fast * 1e6, times.canonical * 1e6, times.canonical / times.fast);
}

void benchAttention(const Kernels& kernels, int positions, int windowSize, int rowCount, int headsPerKv, int headSize) {
  constexpr int blockSize = 32;
  const int blockCount = (positions + blockSize - 1) / blockSize;
  const size_t blockBytes = kernels.kvBlockBytes(headSize, blockSize);
  const Bytes kv = allocate(blockBytes * static_cast<size_t>(blockCount));
  std::vector<int32_t> blocks(static_cast<size_t>(blockCount));
  for (int i = 0; i < blockCount; i++) blocks[static_cast<size_t>(i)] = i;
  Random random;
  for (int p = 0; p < positions; p++) {
    const std::vector<float> head = random.vector(static_cast<size_t>(headSize));
    kernels.kvWrite(head.data(), head.data(), headSize, blockSize, p % blockSize, kv.get() + blockBytes * static_cast<size_t>(p / blockSize));
  }
  const int width = headsPerKv * headSize;
  const std::vector<float> query = random.vector(static_cast<size_t>(rowCount) * static_cast<size_t>(width));
  std::vector<float> output(query.size());
  const Bytes scratch = allocate(kernels.attentionScratchBytes(headSize, headsPerKv, positions));
  const AttentionArgs args{query.data(), width, rowCount, headsPerKv, headSize, 1, positions - rowCount, windowSize, blockSize,
                           blocks.data(), kv.get(), static_cast<int64_t>(blockBytes),
                           static_cast<float>(65536 * 1.4426950408889634 / std::sqrt(headSize)), output.data(), width, scratch.get()};
  const Times times = compare([&](Schedule schedule) { kernels.attention(schedule, args); });
  char name[96];
  const char* const window = windowSize > 0 ? ", the last " : "";
  const std::string size = windowSize > 0 ? std::to_string(windowSize) : "";
  std::snprintf(name, sizeof name, "attention %d positions%s%s, %d heads of %d", positions, window, size.c_str(), headsPerKv, headSize);
  printTimes(name, rowCount, times);
}

void benchRows(const Kernels& kernels) {
  constexpr int width = 704;
  Random random;
  const std::vector<float> left = random.vector(width), right = random.vector(width);
  std::vector<float> output(width);
  printTimes("rms_norm, 704 elements", 1, compare([&](Schedule schedule) {
    kernels.rmsNorm(schedule, left.data(), right.data(), width, 1, 0.00704f, 26.5f, output.data());
  }));
  for (const int group : {64, 128}) {
    const std::vector<float> heads = random.vector(10 * static_cast<size_t>(group));
    std::vector<float> normed(heads.size());
    char name[64];
    std::snprintf(name, sizeof name, "rms_norm, 10 heads of %d", group);
    printTimes(name, 1, compare([&](Schedule schedule) {
      kernels.rmsNorm(schedule, heads.data(), right.data(), group, 10, 0.00064f, 8.0f, normed.data());
    }));
  }
  printTimes("swiglu, 704 elements", 1, compare([&](Schedule schedule) {
    kernels.swiglu(schedule, left.data(), right.data(), width, output.data());
  }));
  std::vector<float> row = random.vector(640);
  printTimes("rope, 10 heads of 64", 1, compare([&](Schedule schedule) { kernels.rope(schedule, row.data(), 10, 64, left.data(), right.data()); }));
  const Bytes block = allocate(kernels.kvBlockBytes(64, 32));
  printTimes("kv_write, head of 64", 1, compare([&](Schedule) { kernels.kvWrite(left.data(), right.data(), 64, 32, 5, block.get()); }));
  for (const Format format : {Format::bf16, Format::q8}) {
    const size_t bytes = std::max(kernels.inputBytes(format, Schedule::fast, width), kernels.inputBytes(format, Schedule::canonical, width));
    const Bytes prepared = allocate(bytes);
    printTimes(format == Format::bf16 ? "input of bf16, 704 elements" : "input of q8, 704 elements", 1,
               compare([&](Schedule schedule) { kernels.prepareInput(format, schedule, left.data(), width, prepared.get()); }));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const name = argc > 1 ? argv[1] : "avx512";
  const Isa isa = std::strcmp(name, "scalar") == 0 ? Isa::scalar : std::strcmp(name, "avx2") == 0 ? Isa::avx2 : Isa::avx512;
  const char* reason = nullptr;
  const Kernels* kernels = kernelsFor(isa, FastKernels::native, &reason);
  if (!kernels) {
    std::fprintf(stderr, "%s is missing: %s\n", name, reason);
    return 1;
  }
  std::printf("%s (%s), one thread; linear in GFLOPS\n\n| kernel | rows | fast | canonical | ratio |\n| --- | --- | --- | --- | --- |\n",
              kernels->name, kernels->features);
  for (const auto& [columns, rows] : {std::pair{256, 16}, {256, 704}, {704, 256}, {576, 1536}, {4096, 256}}) benchLinear(*kernels, Format::bf16, columns, rows);
  benchLinear(*kernels, Format::q8, 576, 1536);
  for (const int positions : {64, 256, 1024}) benchAttention(*kernels, positions, 0, 1, 3, 64);
  benchAttention(*kernels, 512, 0, 64, 2, 64);
  for (const int positions : {1024, 4096}) benchAttention(*kernels, positions, 256, 1, 3, 64);
  benchAttention(*kernels, 4096, 256, 64, 2, 64);
  benchRows(*kernels);
}
