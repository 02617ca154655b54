// What LDTILECFG reads: eight tiles of rows of 64 bytes, whose number of rows the caller sets.
#pragma once
#include <cstdint>

namespace stet::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// To be called between the last write of memory and the first tile instruction that reads it: the compiler's header does not
// say what those read, so such a write might be dropped or moved.
inline __attribute__((always_inline)) void publish(const void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

}  // namespace
}  // namespace stet::cpu
