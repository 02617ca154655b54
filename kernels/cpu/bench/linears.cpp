// Times the linears beside what the machine can do at most, all in one run: `linears [scalar|avx2|avx512] [cache|memory]`.
// cache: one matrix, one thread, again and again; shares are those of the peak of byte products.
// memory: matrices of 140 MB in turn, on one and two threads; shares are those of loops that only read.
// Limits and kernels alternate, and the best of their rounds counts.
#include <cstdio>
#include <memory>

#include "../features.h"
#include "../kernels.h"
#include "limits.h"

namespace {

using namespace stet::cpu;
using namespace stet::cpu::bench;

constexpr size_t workingSet = size_t{140} << 20;
constexpr int rowCounts[] = {1, 2, 4, 8, 16, 64, 256, 512};
constexpr int mostMemoryRows = 16;

struct Random {
  uint32_t state = 1;
  uint32_t word() { return state = state * 1664525u + 1013904223u; }
  float value() { return static_cast<float>(static_cast<int32_t>(word())) / 2147483648.0f; }
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, Free>;

const char* nameOf(Format format) { return format == Format::bf16 ? "bf16" : format == Format::q8 ? "q8" : "q4"; }

// `copies` packed matrices of one shape.
struct Matrices {
  Format format;
  int columns, rows, tiles, copies;
  size_t bytes;  // of one
  std::unique_ptr<HugeMemory> memory;

  Matrices(const Kernels& kernels, Format format_, int columns_, int rows_, bool fill) : format(format_), columns(columns_), rows(rows_) {
    tiles = (rows + kernels.tileRows - 1) / kernels.tileRows;
    bytes = (kernels.matrixBytes(format, rows, columns) + 63) / 64 * 64;
    copies = fill ? std::max<int>(1, static_cast<int>(workingSet / bytes)) : 1;
    memory = std::make_unique<HugeMemory>(bytes * static_cast<size_t>(copies));
    Random random;
    const size_t blocks = static_cast<size_t>(rows) * static_cast<size_t>((columns + 31) / 32);
    std::vector<uint16_t> bits(format == Format::bf16 ? static_cast<size_t>(rows) * static_cast<size_t>(columns) : 0, 0x3f80);
    std::vector<int8_t> quants(format == Format::q8 ? blocks * 32 : 0);
    std::vector<uint8_t> nibbles(format == Format::q4 ? blocks * 16 : 0);
    for (int8_t& quant : quants) quant = static_cast<int8_t>(random.value() * 127);
    for (uint8_t& two : nibbles) two = static_cast<uint8_t>(random.word() >> 24);
    const std::vector<float> scales(blocks, 0.0009765625f);
    const std::vector<uint16_t> scales16(blocks, 0x3a80);
    kernels.packMatrix({format, rows, columns, bits.data(), quants.data(), scales.data(), nibbles.data(), scales16.data(), scales16.data()},
                       0, tiles, memory->data);
    for (int copy = 1; copy < copies; copy++) std::memcpy(memory->data + static_cast<size_t>(copy) * bytes, memory->data, bytes);
  }
  Matrix at(int copy) const { return {format, rows, columns, memory->data + static_cast<size_t>(copy) * bytes}; }
};

// Inputs of one schedule, prepared, and room for outputs.
struct Inputs {
  Bytes prepared;
  std::vector<float> output;

  Inputs(const Kernels& kernels, const Matrices& matrices, Schedule schedule, int rowCount)
      : output(static_cast<size_t>(rowCount) * static_cast<size_t>(matrices.rows)) {
    const size_t bytes = kernels.inputBytes(matrices.format, schedule, matrices.columns);
    prepared.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes * static_cast<size_t>(rowCount))));
    Random random;
    std::vector<float> row(static_cast<size_t>(matrices.columns));
    for (int r = 0; r < rowCount; r++) {
      for (float& x : row) x = random.value();
      kernels.prepareInput(matrices.format, schedule, row.data(), matrices.columns, prepared.get() + bytes * static_cast<size_t>(r));
    }
  }
};

struct Limits {
  double vnni = 0, tiles = 0;
  double read[2] = {};
  void roundOfProducts() {
    if (!features().missingAvx512 && features().vnni) vnni = std::max(vnni, vnniRound());
    if (features().amxInt8) tiles = std::max(tiles, tilesRound());
  }
};

void benchCache(const Kernels& kernels, Format format, int columns, int rows) {
  const Matrices matrices(kernels, format, columns, rows, false);
  for (const int rowCount : rowCounts) {
    const double operations = 2.0 * rowCount * static_cast<double>(rows) * columns;
    const int calls = std::max(1, static_cast<int>(1e8 / operations));
    const int rounds = operations > 1e9 ? 8 : 40;
    double best[2] = {};
    Limits limits;
    for (const Schedule schedule : {Schedule::fast, Schedule::canonical}) {
      if (format != Format::bf16 && schedule == Schedule::fast) continue;
      Inputs inputs(kernels, matrices, schedule, rowCount);
      for (int round = 0; round < rounds; round++) {
        limits.roundOfProducts();
        const auto start = Clock::now();
        for (int call = 0; call < calls; call++) {
          kernels.linear(matrices.at(0), schedule, inputs.prepared.get(), rowCount, rowCount, nullptr, 0, matrices.tiles, inputs.output.data(), rows);
        }
        double& gops = best[static_cast<int>(schedule)];
        gops = std::max(gops, 1e-9 * operations * calls / secondsSince(start));
      }
    }
    std::printf("| %s %dx%d | %d |", nameOf(format), columns, rows, rowCount);
    if (format == Format::bf16) std::printf(" %.0f fast, %.0f canonical | | |\n", best[0], best[1]);
    else std::printf(" %.0f | %.0f %% | %.0f %% |\n", best[1], limits.vnni > 0 ? 100 * best[1] / limits.vnni : 0, limits.tiles > 0 ? 100 * best[1] / limits.tiles : 0);
    std::fflush(stdout);
  }
}

void benchMemory(const Kernels& kernels, Format format, int columns, int rows) {
  const Matrices matrices(kernels, format, columns, rows, true);
  const Schedule schedule = format == Format::bf16 ? Schedule::fast : Schedule::canonical;
  const double bytes = static_cast<double>(matrices.bytes) * matrices.copies;
  for (const int rowCount : rowCounts) {
    if (rowCount > mostMemoryRows) break;
    Inputs inputs(kernels, matrices, schedule, rowCount);
    double rate[2] = {};
    Limits limits;
    for (int round = 0; round < 10; round++) {
      for (const int threads : {1, 2}) {
        double& read = limits.read[threads - 1];
        read = std::max(read, readRound<0>(matrices.memory->data, static_cast<size_t>(bytes), threads));
        read = std::max(read, readRound<16384>(matrices.memory->data, static_cast<size_t>(bytes), threads));
        const double seconds = onThreads(threads, [&](int thread, int count) {
          const int begin = matrices.tiles * thread / count, end = matrices.tiles * (thread + 1) / count;
          for (int copy = 0; copy < matrices.copies; copy++) {
            kernels.linear(matrices.at(copy), schedule, inputs.prepared.get(), rowCount, rowCount, nullptr, begin, end, inputs.output.data(), rows);
          }
        });
        rate[threads - 1] = std::max(rate[threads - 1], 1e-9 * bytes / seconds);
      }
    }
    std::printf("| %s %dx%d | %d |", nameOf(format), columns, rows, rowCount);
    for (const int t : {0, 1}) std::printf(" %.1f | %.1f | %.0f %% |", rate[t], limits.read[t], 100 * rate[t] / limits.read[t]);
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const name = argc > 1 ? argv[1] : "avx512";
  const bool memory = argc > 2 && std::strcmp(argv[2], "memory") == 0;
  const Isa isa = std::strcmp(name, "scalar") == 0 ? Isa::scalar : std::strcmp(name, "avx2") == 0 ? Isa::avx2 : Isa::avx512;
  const char* reason = nullptr;
  const Kernels* kernels = kernelsFor(isa, FastKernels::native, &reason);
  if (!kernels || (memory && features().missingAvx512)) {
    std::fprintf(stderr, "%s is missing: %s\n", kernels ? "avx512" : name, kernels ? features().missingAvx512 : reason);
    return 1;
  }
  std::printf("%s (%s)\n\n", kernels->name, kernels->features);
  if (memory) std::printf("| weights | rows | GB/s, 1 thread | only read | share | 2 threads | only read | share |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  else std::printf("| weights | rows | GOPS, one thread | of the peak of VNNI | of tiles |\n| --- | --- | --- | --- | --- |\n");
  for (const Format format : {Format::bf16, Format::q8, Format::q4}) {
    for (const auto& [columns, rows] : {std::pair{576, 1536}, {1536, 576}, {576, 576}, {576, 49152}}) {
      if (memory) benchMemory(*kernels, format, columns, rows);
      else if (rows < 49152) benchCache(*kernels, format, columns, rows);
    }
  }
}
