// What this machine can do at most, measured like the kernels: bytes read from memory a second, and byte products of VNNI
// and of tiles. The best of many short rounds counts, as other programs may run beside.
#pragma once
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <vector>

#include "../tile_config.h"

namespace stet::cpu::bench {

using Clock = std::chrono::steady_clock;

inline double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Memory in huge pages, as the runtime keeps its weights.
class HugeMemory {
 public:
  explicit HugeMemory(size_t bytes) : bytes_(bytes + pageBytes) {
    mapping_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) std::abort();
    data = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(mapping_) + pageBytes - 1) / pageBytes * pageBytes);
    madvise(data, bytes, MADV_HUGEPAGE);
    std::memset(data, 1, bytes);
  }
  HugeMemory(const HugeMemory&) = delete;
  ~HugeMemory() { munmap(mapping_, bytes_); }

  std::byte* data;

 private:
  static constexpr size_t pageBytes = size_t{2} << 20;
  size_t bytes_;
  void* mapping_;
};

// `ahead`: bytes before its turn that a line is asked for; 0 leaves that to the machine.
template <size_t ahead> __attribute__((target("avx512f"))) inline void readAll(const std::byte* data, size_t bytes) {
  __m512i sums[4] = {};
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    for (size_t j = 0; j < 4 && ahead > 0; j++) __builtin_prefetch(data + i + j * 64 + ahead, 0, 2);
    for (size_t j = 0; j < 4; j++) sums[j] = _mm512_add_epi32(sums[j], _mm512_load_si512(data + i + j * 64));
  }
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
  __asm__ volatile("" : : "v"(sum));
}

// `run(thread, threads)` on each of `threads` threads at once; seconds until the last is done.
template <class Run> double onThreads(int threads, Run run) {
  std::vector<std::thread> others;
  const auto start = Clock::now();
  for (int thread = 1; thread < threads; thread++) others.emplace_back([&run, thread, threads] { run(thread, threads); });
  run(0, threads);
  for (std::thread& other : others) other.join();
  return secondsSince(start);
}

// Gigabytes a second of one round over `bytes`; which loop is quicker depends on what else the machine does.
template <size_t ahead> double readRound(const std::byte* data, size_t bytes, int threads) {
  const double seconds = onThreads(threads, [&](int thread, int count) {
    const size_t part = bytes / static_cast<size_t>(count) / 256 * 256;
    readAll<ahead>(data + part * static_cast<size_t>(thread), part);
  });
  return 1e-9 * static_cast<double>(bytes) / seconds;
}

#define STET_DOT(sum) "vpdpbusd %%zmm31, %%zmm31, %%zmm" #sum "\n"
#define STET_DOTS(a, b, c, d, e, f) STET_DOT(a) STET_DOT(b) STET_DOT(c) STET_DOT(d) STET_DOT(e) STET_DOT(f)

// Giga-operations a second (a multiplication and an addition are two) of byte products, both planes of an input counting
// once, as the linears count. 24 sums hide the latency; they are named, for a compiler might keep an array in memory.
__attribute__((target("avx512f,avx512vnni"))) inline double vnniRound() {
  constexpr int repeats = 4000;
  const auto start = Clock::now();
  for (int i = 0; i < repeats; i++) {
    __asm__ volatile(STET_DOTS(0, 1, 2, 3, 4, 5) STET_DOTS(6, 7, 8, 9, 10, 11) STET_DOTS(12, 13, 14, 15, 16, 17)
                         STET_DOTS(18, 19, 20, 21, 22, 23)
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                       "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23");
  }
  return 1e-9 * repeats * 24 * 64 * 2 / 2 / secondsSince(start);
}

#undef STET_DOTS
#undef STET_DOT

// The same of tiles as the linears can use them: products of 32 bytes, for the sums of each block of 32 must stay apart.
// The instruction takes 64 in the same time.
__attribute__((target("amx-tile,amx-int8"))) inline double tilesRound() {
  constexpr int repeats = 2000;
  TileConfig config;
  for (int tile = 0; tile < 8; tile++) config.rows[tile] = 16;
  config.rowBytes[4] = 32;
  config.rows[5] = 8;
  publish(&config);
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  const auto start = Clock::now();
  for (int i = 0; i < repeats; i++) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  const double seconds = secondsSince(start);
  _tile_release();
  return 1e-9 * repeats * 4.0 * 16 * 16 * 32 * 2 / 2 / seconds;
}

}  // namespace stet::cpu::bench
