#include "features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace stet::cpu {
namespace {

#if defined(__x86_64__)

// Its feature bit has no name in every compiler's list.
bool hasAvxVnni() {
  constexpr unsigned avxVnniBit = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avxVnniBit);
}

constexpr unsigned tileBf16Bit = 1u << 22, tileBit = 1u << 24, tileInt8Bit = 1u << 25;

// The tile registers are off until a process asks for them; the kernel refuses where a signal stack is too small for them.
// Returns the bits of leaf 7 that speak of tiles, or 0.
unsigned grantedTiles() {
#if defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & tileBit)) return 0;
  constexpr long requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0 ? d & (tileBit | tileBf16Bit | tileInt8Bit) : 0;
#else
  return 0;
#endif
}

Features detect() {
  __builtin_cpu_init();
  Features found{};
  found.missingAvx2 = !__builtin_cpu_supports("avx2") ? "avx2" : !__builtin_cpu_supports("fma") ? "fma" : nullptr;
  found.avxVnni = !found.missingAvx2 && hasAvxVnni();
  found.missingAvx512 = found.missingAvx2                           ? found.missingAvx2
                        : !__builtin_cpu_supports("avx512f")        ? "avx512f"
                        : !__builtin_cpu_supports("avx512bw")       ? "avx512bw"
                        : !__builtin_cpu_supports("avx512vl")       ? "avx512vl"
                        : !__builtin_cpu_supports("avx512dq")       ? "avx512dq"
                                                                    : nullptr;
  if (found.missingAvx512) return found;
  found.vnni = __builtin_cpu_supports("avx512vnni") != 0;
  const bool bf16Dot = __builtin_cpu_supports("avx512bf16") != 0;
  // Twice the speed of f32 multiply-add was measured on AMD (Zen 4 and 5), but 0.6 to 0.8 of it on Intel from 2 rows on.
  found.quickBf16Dot = bf16Dot && __builtin_cpu_is("amd") != 0;
  const unsigned tiles = grantedTiles();
  found.amxBf16 = bf16Dot && (tiles & tileBf16Bit);
  found.amxInt8 = found.vnni && (tiles & tileInt8Bit);
  return found;
}

#else

Features detect() { return {"an x86-64 CPU", "an x86-64 CPU", false, false, false, false, false}; }

#endif

}  // namespace

const Features& features() {
  static const Features found = detect();
  return found;
}

}  // namespace stet::cpu
