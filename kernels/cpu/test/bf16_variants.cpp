// Holds the fast bf16 linears that this CPU can execute, whether or not it would choose them, against sums in f64, and
// sees that none writes outside its outputs. Exits 1 at a difference. The other kernels are held by the golden vectors
// of @stet/backend, bit for bit.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../features.h"
#include "../sets.h"

namespace {

using namespace stet::cpu;

constexpr float untouched = 777.0f;
constexpr int margin = 3;  // outputs behind each row that must stay untouched

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, Free>;

Bytes allocate(size_t bytes) { return Bytes(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))); }

struct Random {
  uint32_t state = 1;
  float next() {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
  }
};

float toBf16(float x, uint16_t& bits) {
  uint32_t word;
  std::memcpy(&word, &x, sizeof word);
  bits = static_cast<uint16_t>(word >> 16);
  word &= 0xffff0000u;
  std::memcpy(&x, &word, sizeof x);
  return x;
}

// Rounding an input to bf16 moves a product by at most 2^-8 of its size, f32 sums add little.
bool check(const char* name, const LinearKernel& kernel, int rows, int columns, int rowCount) {
  Random random;
  const size_t width = static_cast<size_t>(columns), stride = static_cast<size_t>(rows + margin);
  std::vector<uint16_t> bits(static_cast<size_t>(rows) * width);
  std::vector<float> weights(bits.size()), input(static_cast<size_t>(rowCount) * width), bias(static_cast<size_t>(rows));
  for (size_t i = 0; i < bits.size(); i++) weights[i] = toBf16(random.next(), bits[i]);
  for (float& value : input) value = random.next();
  for (float& value : bias) value = random.next();
  const int tiles = (rows + tileOutputs - 1) / tileOutputs;
  const Bytes packed = allocate(bf16Pack.matrixBytes(rows, columns));
  bf16Pack.packMatrix({Format::bf16, rows, columns, bits.data(), nullptr, nullptr}, 0, tiles, packed.get());
  const size_t inputBytes = kernel.inputBytes(columns);
  const Bytes prepared = allocate(inputBytes * static_cast<size_t>(rowCount));
  for (int r = 0; r < rowCount; r++) {
    kernel.prepareInput(input.data() + static_cast<size_t>(r) * width, columns, prepared.get() + static_cast<size_t>(r) * inputBytes);
  }
  std::vector<float> output(static_cast<size_t>(rowCount) * stride, untouched);
  for (const auto& [begin, end] : {std::pair{0, tiles / 3}, {tiles / 3, tiles}}) {
    kernel.run({Format::bf16, rows, columns, packed.get()}, prepared.get(), rowCount, bias.data(), begin, end, output.data(),
               static_cast<int64_t>(stride));
  }
  for (size_t r = 0; r < static_cast<size_t>(rowCount); r++) {
    for (size_t n = 0; n < stride; n++) {
      const float got = output[r * stride + n];
      double expected = untouched, allowed = 0;
      if (n < static_cast<size_t>(rows)) {
        expected = bias[n];
        for (size_t k = 0; k < width; k++) {
          const double product = static_cast<double>(weights[n * width + k]) * static_cast<double>(input[r * width + k]);
          expected += product;
          allowed += std::fabs(product) / 256;
        }
        allowed += 1e-4;
      }
      if (!(std::fabs(static_cast<double>(got) - expected) <= allowed)) {
        std::printf("%s, %d outputs of %d inputs, %d rows: row %zu output %zu is %g, expected %g within %g\n", name, rows, columns, rowCount,
                    r, n, static_cast<double>(got), expected, allowed);
        return false;
      }
    }
  }
  return true;
}

bool checkShapes(const char* name, const LinearKernel& kernel) {
  int count = 0;
  for (const int rows : {1, 5, 16, 17, 48, 100, 256}) {
    for (const int columns : {1, 2, 31, 32, 33, 64, 257, 704}) {
      for (const int rowCount : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65}) {
        if (!check(name, kernel, rows, columns, rowCount)) return false;
        count++;
      }
    }
  }
  std::printf("%s: %d shapes agree\n", name, count);
  return true;
}

}  // namespace

int main() {
  const Features& found = features();
  bool agree = true;
  if (!found.missingAvx2) agree = checkShapes("AVX2", avx2Bf16Fast) && agree;
  else std::printf("AVX2: skipped, this CPU lacks %s\n", found.missingAvx2);
  if (!found.missingAvx512) agree = checkShapes("AVX-512", avx512Bf16Fast) && agree;
  else std::printf("AVX-512: skipped, this CPU lacks %s\n", found.missingAvx512);
  if (!found.missingAvx512 && __builtin_cpu_supports("avx512bf16")) agree = checkShapes("bf16 dot", dotBf16) && agree;
  else std::printf("bf16 dot: skipped, this CPU lacks avx512bf16\n");
  if (found.amxBf16) agree = checkShapes("bf16 tiles", amxBf16) && agree;
  else std::printf("bf16 tiles: skipped, this CPU or its operating system does not grant them\n");
  return agree ? 0 : 1;
}
