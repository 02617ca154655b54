// Prints one line of JSON: what this machine can do at most, on one thread and on N, N being the first argument, or 2.
// `bytesPerSecond` over a working set of MEGABYTES, the second argument, or 140; operations a second (a multiplication and an addition are
// two) of f32, bf16 and int8, each by the quickest instruction that there is. The best of many short rounds counts.
#include <cstdio>

#include "../features.h"
#include "limits.h"

namespace {

using namespace stet::cpu;
using namespace stet::cpu::bench;

constexpr int readRounds = 7, peakRounds = 15, repeats = 4000, sumCount = 24;

// Runs `run` on all threads at once, each `rounds` times; operations a second of all, the best round of each thread.
template <class Run> double peakOf(int threads, double operations, Run run) {
  std::vector<double> best(static_cast<size_t>(threads), 0.0);
  onThreads(threads, [&](int thread, int) {
    double& mine = best[static_cast<size_t>(thread)];
    for (int round = 0; round < peakRounds; round++) {
      const auto start = Clock::now();
      run();
      mine = std::max(mine, operations / secondsSince(start));
    }
  });
  double sum = 0;
  for (const double one : best) sum += one;
  return sum;
}

// The instruction on 24 sums, which hide its latency, in turn. It is written out, for a compiler would copy its sums around.
#define STET_PEAK(name, instruction)                                             \
  __attribute__((target("avx512f"))) void name() {                               \
    __m512i sums[sumCount] = {};                                                 \
    const __m512i factor = _mm512_setzero_si512();                               \
    for (int i = 0; i < repeats; i++) {                                          \
      _Pragma("GCC unroll 24") for (int s = 0; s < sumCount; s++)                \
          __asm__ volatile(instruction " %1, %1, %0" : "+v"(sums[s]) : "v"(factor)); \
    }                                                                            \
  }

STET_PEAK(multiplyAdd, "vfmadd231ps")
STET_PEAK(bf16Dots, "vdpbf16ps")
STET_PEAK(byteDots, "vpdpbusd")

__attribute__((target("amx-tile"))) void beginTiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; tile++) config.rows[tile] = 16;
  publish(&config);
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

__attribute__((target("amx-tile,amx-int8"))) void byteTiles() {
  beginTiles();
  for (int i = 0; i < repeats; i++) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) void bf16Tiles() {
  beginTiles();
  for (int i = 0; i < repeats; i++) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
}

void printLimits(int threads, const std::byte* data, size_t bytes) {
  constexpr double vectors = static_cast<double>(repeats) * sumCount, tiles = 4.0 * repeats;
  double read = 0;
  for (int round = 0; round < readRounds; round++) {
    read = std::max({read, 1e9 * readRound<0>(data, bytes, threads), 1e9 * readRound<16384>(data, bytes, threads)});
  }
  const Features& cpu = features();
  double bf16 = 0, int8 = 0;
  if (__builtin_cpu_supports("avx512bf16")) bf16 = peakOf(threads, vectors * 32 * 2, bf16Dots);
  if (cpu.amxBf16) bf16 = std::max(bf16, peakOf(threads, tiles * 16 * 16 * 32 * 2, bf16Tiles));
  if (cpu.vnni) int8 = peakOf(threads, vectors * 64 * 2, byteDots);
  if (cpu.amxInt8) int8 = std::max(int8, peakOf(threads, tiles * 16 * 16 * 64 * 2, byteTiles));
  std::printf("{\"threads\":%d,\"bytesPerSecond\":%.4g,\"f32\":%.4g,\"bf16\":%.4g,\"int8\":%.4g,\"vnni\":%.4g}", threads, read,
              peakOf(threads, vectors * 16 * 2, multiplyAdd), bf16, int8, cpu.vnni ? peakOf(threads, vectors * 64 * 2, byteDots) : 0.0);
}

}  // namespace

int main(int argc, char** argv) {
  if (features().missingAvx512) {
    std::fprintf(stderr, "the limits are measured with AVX-512, and this CPU lacks %s\n", features().missingAvx512);
    return 1;
  }
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const size_t bytes = static_cast<size_t>(argc > 2 ? std::max(1, std::atoi(argv[2])) : 140) << 20;
  const HugeMemory memory(bytes);
  std::printf("{\"workingSet\":%zu,\"one\":", bytes);
  printLimits(1, memory.data, bytes);
  std::printf(",\"all\":");
  printLimits(threads, memory.data, bytes);
  std::printf("}\n");
}
