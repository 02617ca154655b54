// Holds every `q8` and `q4` linear that this CPU can execute, whether or not it would choose it, against the definition of
// docs/NUMERICS.md in plain code, bit for bit: linear, embed, and that nothing is written outside the outputs asked for.
// Exits 1 at a difference.
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
  uint32_t state;
  uint32_t word() {
    state = state * 1664525u + 1013904223u;
    return state >> 8 ^ state << 13;
  }
  int below(int count) { return static_cast<int>((static_cast<uint64_t>(word()) * static_cast<uint64_t>(count)) >> 32); }
};

float fromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// A matrix in either format, as the host delivers it.
struct Weights {
  Format format;
  int rows, columns, blocks;
  std::vector<int8_t> quants;       // (rows, blocks*32)
  std::vector<uint8_t> nibbles;     // (rows, blocks*16)
  std::vector<float> scales;        // (rows, blocks)
  std::vector<uint16_t> scales16, centres16;

  MatrixSource source() const {
    return {format, rows, columns, nullptr, quants.data(), scales.data(), nibbles.data(), scales16.data(), centres16.data()};
  }
  size_t place(int row, int b) const { return static_cast<size_t>(row) * static_cast<size_t>(blocks) + static_cast<size_t>(b); }
  // What stands in sums.
  int integer(int row, int k) const {
    if (format == Format::q8) return quants[place(row, k / 32) * 32 + static_cast<size_t>(k % 32)];
    const int byte = nibbles[place(row, k / 32) * 16 + static_cast<size_t>(k % 16)];
    return (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
  }
  float scale(int row, int b) const { return format == Format::q8 ? scales[place(row, b)] : fromBits(static_cast<uint32_t>(scales16[place(row, b)]) << 16); }
  float centre(int row, int b) const { return format == Format::q8 ? 0 : fromBits(static_cast<uint32_t>(centres16[place(row, b)]) << 16); }
};

// How wild numbers are: `level` 0 ordinary ones, 1 all exponents of the domain, 2 the largest magnitudes, all alike.
Weights makeWeights(Format format, int rows, int columns, int level, Random& random) {
  Weights w{format, rows, columns, (columns + 31) / 32, {}, {}, {}, {}, {}};
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(w.blocks);
  const auto exponent = [&] { return level == 1 ? 127 - 40 + random.below(51) : level == 2 ? 127 + 10 : 127 - 8 + random.below(4); };
  w.quants.resize(format == Format::q8 ? count * 32 : 0);
  for (int8_t& quant : w.quants) quant = static_cast<int8_t>(level == 2 ? 127 : random.below(255) - 127);
  for (int row = 0; row < rows && format == Format::q8; row++) {
    for (int k = columns; k < w.blocks * 32; k++) w.quants[w.place(row, k / 32) * 32 + static_cast<size_t>(k % 32)] = 0;
  }
  for (size_t i = 0; i < count; i++) {
    if (format == Format::q8) {
      // Scales of 5 bits, or of 8 where quants are small enough for that.
      const bool fine = random.below(2) == 0;
      for (size_t k = i * 32; fine && k < i * 32 + 32; k++) w.quants[k] = static_cast<int8_t>(level == 2 ? 16 : w.quants[k] % 17);
      const int digits = fine ? (level == 2 ? 127 : random.below(128)) : (level == 2 ? 15 : random.below(16)) << 3;
      w.scales.push_back(fromBits(static_cast<uint32_t>(exponent()) << 23 | static_cast<uint32_t>(digits) << 16));
      continue;
    }
    for (int j = 0; j < 16; j++) w.nibbles.push_back(static_cast<uint8_t>(level == 2 ? 0 : random.below(256)));
    const auto bf16 = [&] { return static_cast<uint16_t>(random.below(2) << 15 | exponent() << 7 | (level == 2 ? 0 : random.below(128))); };
    w.scales16.push_back(random.below(40) == 0 ? 0 : bf16());
    w.centres16.push_back(random.below(40) == 0 ? 0 : bf16());
  }
  return w;
}

std::vector<float> makeInputs(int count, int level, Random& random) {
  std::vector<float> input(static_cast<size_t>(count));
  for (float& x : input) {
    const int kind = random.below(16);
    const int exponent = level == 1 ? 127 - 60 + random.below(130) : level == 2 ? 127 + 30 : 127 - 3 + random.below(6);
    x = kind == 0 ? 0.0f : fromBits((level == 2 ? 0 : static_cast<uint32_t>(random.below(2)) << 31) | static_cast<uint32_t>(exponent) << 23 | random.word() >> 9);
  }
  // Whole blocks of one size, small beside their neighbours, and of zeros.
  for (size_t i = 0; i + 96 <= input.size() && level == 1; i += 224) {
    for (size_t k = 0; k < 32; k++) input[i + k] *= 0x1p-40f, input[i + 32 + k] = 0.0f;
  }
  return input;
}

struct Quantized {
  std::vector<int> high, low;   // (blocks*32)
  std::vector<int> exponent;
  std::vector<double> centreFactor;
};

double r16(double sum) {
  const uint32_t bits = bitsOf(static_cast<float>(sum));
  if ((bits & 0x7fffffffu) < 0x26800000u) return 0;
  return static_cast<double>(fromBits((bits & 0x80000000u) | (((bits & 0x7fffffffu) + 0x80) & ~0xffu)));
}

Quantized quantize(const float* x, int columns) {
  const int blocks = (columns + 31) / 32;
  Quantized q;
  for (int b = 0; b < blocks; b++) {
    uint32_t largest = 0;
    for (int k = b * 32; k < columns && k < b * 32 + 32; k++) largest = std::max(largest, bitsOf(x[k]) & 0x7fffffffu);
    const int e = std::min(20, std::max(-40, static_cast<int>((largest + 0x1ffff) >> 23) - 133));
    int sum = 0;
    for (int k = b * 32; k < b * 32 + 32; k++) {
      const float scaled = k < columns ? std::ldexp(x[k], 7 - e) : 0.0f;
      const int value = static_cast<int>(std::nearbyint(std::min(16256.0f, std::max(-16256.0f, scaled))));
      const int high = (value + 64) >> 7;
      q.high.push_back(high);
      q.low.push_back(value - 128 * high);
      sum += value;
    }
    q.exponent.push_back(e);
    q.centreFactor.push_back(std::ldexp(r16(sum), e - 7));
  }
  return q;
}

// Adds an exact term, rounded once.
void addTerm(float& sum, double term) {
  if (static_cast<double>(static_cast<float>(term)) != term) {
    std::printf("a term is not exact: %a\n", term);
    std::exit(1);
  }
  sum = sum + static_cast<float>(term);
}

float defined(const Weights& w, int row, const Quantized& x, const float* bias) {
  float total = 0;
  for (int begin = 0; begin < w.blocks; begin += 8) {
    float segment = 0;
    for (int b = begin; b < std::min(w.blocks, begin + 8); b++) {
      int high = 0, low = 0;
      for (int k = b * 32; k < b * 32 + 32; k++) {
        high += w.integer(row, k) * x.high[static_cast<size_t>(k)];
        low += w.integer(row, k) * x.low[static_cast<size_t>(k)];
      }
      const int e = x.exponent[static_cast<size_t>(b)];
      addTerm(segment, std::ldexp(high * static_cast<double>(w.scale(row, b)), e));
      addTerm(segment, std::ldexp(low * static_cast<double>(w.scale(row, b)), e - 7));
      if (w.format == Format::q4) addTerm(segment, x.centreFactor[static_cast<size_t>(b)] * static_cast<double>(w.centre(row, b)));
    }
    total = total + segment;
  }
  return bias ? total + bias[row] : total;
}

bool checkEmbed(const char* name, const ByteSet& set, const Weights& w, const std::byte* packed) {
  std::vector<float> output(static_cast<size_t>(w.columns) + margin, untouched);
  for (int row = 0; row < w.rows; row += 7) {
    set.pack.embed({w.format, w.rows, w.columns, packed}, row, output.data());
    for (int k = 0; k < w.columns + margin; k++) {
      float expected = untouched;
      if (k < w.columns) expected = static_cast<float>(w.integer(row, k)) * w.scale(row, k / 32);
      if (k < w.columns && w.format == Format::q4) expected = expected + w.centre(row, k / 32);
      if (bitsOf(output[static_cast<size_t>(k)]) != bitsOf(expected)) {
        std::printf("%s: embed of %d columns, token %d, element %d is %a, expected %a\n", name, w.columns, row, k,
                    static_cast<double>(output[static_cast<size_t>(k)]), static_cast<double>(expected));
        return false;
      }
    }
  }
  return true;
}

struct Shape {
  int rows, columns, rowCount, level;
  bool bias;
};

struct Variant {
  const char* name;
  const ByteSet* set;
};

bool checkLinear(const Variant& variant, const Weights& w, const Shape& shape, const std::vector<float>& input, const float* bias,
                 const std::vector<float>& expected) {
  const ByteSet& set = *variant.set;
  const size_t stride = static_cast<size_t>(w.rows + margin);
  const int tiles = (w.rows + tileOutputs - 1) / tileOutputs;
  const Bytes packed = allocate(set.pack.matrixBytes(w.rows, w.columns));
  for (const auto& [begin, end] : {std::pair{0, tiles / 2}, {tiles / 2, tiles}}) set.pack.packMatrix(w.source(), begin, end, packed.get());
  const size_t inputBytes = set.linear.inputBytes(w.columns);
  const Bytes prepared = allocate(inputBytes * static_cast<size_t>(shape.rowCount));
  for (int r = 0; r < shape.rowCount; r++) {
    set.linear.prepareInput(input.data() + static_cast<size_t>(r) * static_cast<size_t>(w.columns), w.columns, prepared.get() + static_cast<size_t>(r) * inputBytes);
  }
  std::vector<float> output(static_cast<size_t>(shape.rowCount) * stride, untouched);
  for (const auto& [begin, end] : {std::pair{0, tiles / 3}, {tiles / 3, tiles}}) {
    set.linear.run({w.format, w.rows, w.columns, packed.get()}, prepared.get(), shape.rowCount, bias, begin, end, output.data(), static_cast<int64_t>(stride));
  }
  for (size_t i = 0; i < output.size(); i++) {
    const size_t r = i / stride, n = i % stride;
    const float want = n < static_cast<size_t>(w.rows) ? expected[r * static_cast<size_t>(w.rows) + n] : untouched;
    if (bitsOf(output[i]) != bitsOf(want)) {
      std::printf("%s: %d outputs of %d inputs, %d rows, level %d: row %zu output %zu is %a, expected %a\n", variant.name, w.rows, w.columns,
                  shape.rowCount, shape.level, r, n, static_cast<double>(output[i]), static_cast<double>(want));
      return false;
    }
  }
  return checkEmbed(variant.name, set, w, packed.get());
}

// Every variant at one shape.
bool checkShape(Format format, const std::vector<Variant>& variants, const Shape& shape, Random& random) {
  const Weights w = makeWeights(format, shape.rows, shape.columns, shape.level, random);
  const std::vector<float> input = makeInputs(shape.rowCount * shape.columns, shape.level, random);
  std::vector<float> bias(static_cast<size_t>(shape.rows));
  for (float& b : bias) b = static_cast<float>(random.below(2001) - 1000) * 0x1p-9f;
  const float* const biasOrNone = shape.bias ? bias.data() : nullptr;
  std::vector<float> expected;
  for (int r = 0; r < shape.rowCount; r++) {
    const Quantized x = quantize(input.data() + static_cast<size_t>(r) * static_cast<size_t>(shape.columns), shape.columns);
    for (int n = 0; n < shape.rows; n++) expected.push_back(defined(w, n, x, biasOrNone));
  }
  for (const Variant& variant : variants) {
    if (!checkLinear(variant, w, shape, input, biasOrNone, expected)) return false;
  }
  return true;
}

bool checkFormat(const char* name, Format format, const std::vector<Variant>& variants) {
  Random random{7};
  int count = 0;
  for (const int rows : {1, 16, 17, 100}) {
    for (const int columns : {1, 31, 32, 33, 257, 576, 1100}) {
      for (const int rowCount : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 67}) {
        if (!checkShape(format, variants, {rows, columns, rowCount, count % 3, count % 2 == 0}, random)) return false;
        count++;
      }
    }
  }
  // Every size of a group of rows.
  for (int rowCount = 1; rowCount <= 32; rowCount++) {
    if (!checkShape(format, variants, {33, 608, rowCount, rowCount % 2, true}, random)) return false;
    count++;
  }
  std::printf("%s: %d shapes agree in", name, count);
  for (const Variant& variant : variants) std::printf(" %s%s", variant.name, &variant == &variants.back() ? "\n" : ",");
  return true;
}

}  // namespace

int main() {
  const Features& found = features();
  std::vector<Variant> q8{{"scalar", &scalarQ8}}, q4{{"scalar", &scalarQ4}};
  const auto add = [&](const char* name, bool executable, const ByteSet& q8Set, const ByteSet& q4Set) {
    if (!executable) std::printf("%s: skipped, this CPU or its operating system lacks it\n", name);
    else q8.push_back({name, &q8Set}), q4.push_back({name, &q4Set});
  };
#if defined(__x86_64__)
  add("AVX2", !found.missingAvx2, avx2Q8, avx2Q4);
  add("AVX-VNNI", found.avxVnni, avxVnniQ8, avxVnniQ4);
  add("AVX-512 VNNI", !found.missingAvx512 && found.vnni, vnniQ8, vnniQ4);
  add("int8 tiles", found.amxInt8, amxQ8, amxQ4);
#endif
  const bool agree = checkFormat("q8", Format::q8, q8) && checkFormat("q4", Format::q4, q4);
  return agree ? 0 : 1;
}
