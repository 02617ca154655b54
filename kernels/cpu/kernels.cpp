// Joins the kernels of each instruction set to the table of kernels.h.
#include "kernels.h"

#include <algorithm>

#include "features.h"
#include "sets.h"

namespace stet::cpu {
namespace {

// The kernels an instruction set uses on this machine.
struct Choice {
  const char* name;
  const char* features;
  const ElementSet* elements;
  const LinearKernel* bf16Canonical;
  const LinearKernel* bf16Fast;
  const BatchShapedLinear* batchShaped;
  const ByteSet* q8;
  const ByteSet* q4;
  const AttentionSet* attention;
};

const Choice scalarChoice{"scalar", "", &scalarElements, &scalarBf16, &scalarBf16, &scalarBatchShaped, &scalarQ8, &scalarQ4, &scalarAttention};

#if defined(__x86_64__)
Choice chooseAvx2(const Features& found) {
  Choice choice{"avx2", "", &avx2Elements, &avx2Bf16, &avx2Bf16Fast, &avx2BatchShaped, &avx2Q8, &avx2Q4, &avx2Attention};
  if (found.avxVnni) choice.features = "vnni", choice.q8 = &avxVnniQ8, choice.q4 = &avxVnniQ4;
  return choice;
}

// Byte dot products without VNNI go through AVX2: its kernels bring their own packed forms.
Choice chooseAvx512(const Features& found) {
  Choice choice{"avx512", "", &avx512Elements, &avx512Bf16, &avx512Bf16Fast, &avx512BatchShaped, &avx2Q8, &avx2Q4, &avx2Attention};
  if (found.vnni) choice.q8 = &vnniQ8, choice.q4 = &vnniQ4, choice.attention = &vnniAttention;
  if (found.quickBf16Dot) choice.bf16Fast = &dotBf16;
  if (found.amxBf16) choice.bf16Fast = &amxBf16;
  if (found.amxInt8) choice.q8 = &amxQ8, choice.q4 = &amxQ4, choice.attention = &amxAttention;
  const char* const names[3][3] = {{"", "bf16 dot", "bf16 tiles"},
                                   {"vnni", "bf16 dot, vnni", "bf16 tiles, vnni"},
                                   {"vnni, int8 tiles", "bf16 dot, vnni, int8 tiles", "bf16 tiles, vnni, int8 tiles"}};
  choice.features = names[found.amxInt8 ? 2 : found.vnni][found.amxBf16 ? 2 : found.quickBf16Dot ? 1 : 0];
  return choice;
}
#endif

template <Isa isa> const Choice& chosen() {
#if defined(__x86_64__)
  static const Choice avx512Choice = chooseAvx512(features());
  static const Choice avx2Choice = chooseAvx2(features());
  return isa == Isa::avx512 ? avx512Choice : isa == Isa::avx2 ? avx2Choice : scalarChoice;
#else
  return scalarChoice;
#endif
}

template <Isa isa> const LinearKernel& linearOf(Format format, Schedule schedule) {
  const Choice& choice = chosen<isa>();
  if (format == Format::q8) return choice.q8->linear;
  if (format == Format::q4) return choice.q4->linear;
  return schedule == Schedule::canonical ? *choice.bf16Canonical : *choice.bf16Fast;
}

template <Isa isa> const PackKernel& packOf(Format format) {
  const Choice& choice = chosen<isa>();
  return format == Format::q8 ? choice.q8->pack : format == Format::q4 ? choice.q4->pack : bf16Pack;
}

template <Isa isa> Kernels makeKernels() {
  const Choice& choice = chosen<isa>();
  Kernels kernels{};
  kernels.name = choice.name;
  kernels.features = choice.features;
  kernels.tileRows = tileOutputs;
  kernels.matrixBytes = [](Format format, int32_t rows, int32_t columns) { return packOf<isa>(format).matrixBytes(rows, columns); };
  kernels.packMatrix = [](const MatrixSource& source, int32_t begin, int32_t end, std::byte* packed) {
    packOf<isa>(source.format).packMatrix(source, begin, end, packed);
  };
  kernels.embed = [](const Matrix& matrix, Schedule, int32_t token, float* output) { packOf<isa>(matrix.format).embed(matrix, token, output); };
  kernels.inputBytes = [](Format format, Schedule schedule, int32_t columns) { return linearOf<isa>(format, schedule).inputBytes(columns); };
  kernels.prepareInput = [](Format format, Schedule schedule, const float* input, int32_t columns, std::byte* prepared) {
    linearOf<isa>(format, schedule).prepareInput(input, columns, prepared);
  };
  kernels.linear = [](const Matrix& matrix, Schedule schedule, const std::byte* prepared, int32_t rowCount, int32_t,
                      const float* bias, int32_t begin, int32_t end, float* output, int64_t stride) {
    linearOf<isa>(matrix.format, schedule).run(matrix, prepared, rowCount, bias, begin, end, output, stride);
  };
  kernels.rmsNorm = [](Schedule, const float* input, const float* weight, int32_t width, int32_t groupCount, float scaledEpsilon,
                       float rootWidth, float* output) {
    chosen<isa>().elements->rmsNorm(input, weight, width, groupCount, scaledEpsilon, rootWidth, output);
  };
  kernels.rope = [](Schedule, float* row, int32_t headCount, int32_t headSize, const float* cosine, const float* sine) {
    chosen<isa>().elements->rope(row, headCount, headSize, cosine, sine);
  };
  kernels.swiglu = [](Schedule schedule, const float* gate, const float* up, int32_t count, float* output) {
    const ElementSet& elements = *chosen<isa>().elements;
    (schedule == Schedule::canonical ? elements.swigluCanonical : elements.swigluFast)(gate, up, count, output);
  };
  kernels.add = [](Schedule, const float* left, const float* right, int32_t count, float* output) {
    chosen<isa>().elements->add(left, right, count, output);
  };
  kernels.kvBlockBytes = choice.attention->kvBlockBytes;
  kernels.kvWrite = choice.attention->kvWrite;
  kernels.attentionScratchBytes = choice.attention->attentionScratchBytes;
  kernels.attention = choice.attention->attention;
  kernels.argmax = choice.elements->argmax;
  return kernels;
}

// In the packed form of a byte matrix of the study mode its bf16 values follow; a multiple of 64 bytes.
template <Isa isa> size_t roundedStart(Format format, int32_t rows, int32_t columns) {
  return format == Format::bf16 ? 0 : packOf<isa>(format).matrixBytes(rows, columns);
}

template <Isa isa> void addBatchShapedLinear(Kernels& kernels) {
  kernels.matrixBytes = [](Format format, int32_t rows, int32_t columns) {
    return roundedStart<isa>(format, rows, columns) + bf16Pack.matrixBytes(rows, columns);
  };
  kernels.packMatrix = [](const MatrixSource& source, int32_t begin, int32_t end, std::byte* packed) {
    packOf<isa>(source.format).packMatrix(source, begin, end, packed);
    if (source.format != Format::bf16) packRounded(source, begin, end, packed + roundedStart<isa>(source.format, source.rows, source.columns));
  };
  kernels.inputBytes = [](Format format, Schedule schedule, int32_t columns) {
    return schedule == Schedule::fast ? chosen<isa>().batchShaped->inputBytes(columns) : linearOf<isa>(format, schedule).inputBytes(columns);
  };
  kernels.prepareInput = [](Format format, Schedule schedule, const float* input, int32_t columns, std::byte* prepared) {
    const auto prepare = schedule == Schedule::fast ? chosen<isa>().batchShaped->prepareInput : linearOf<isa>(format, schedule).prepareInput;
    prepare(input, columns, prepared);
  };
  kernels.linear = [](const Matrix& matrix, Schedule schedule, const std::byte* prepared, int32_t rowCount, int32_t batchRows,
                      const float* bias, int32_t begin, int32_t end, float* output, int64_t stride) {
    if (schedule == Schedule::canonical) {
      linearOf<isa>(matrix.format, schedule).run(matrix, prepared, rowCount, bias, begin, end, output, stride);
      return;
    }
    const Matrix rounded{Format::bf16, matrix.rows, matrix.columns, matrix.data + roundedStart<isa>(matrix.format, matrix.rows, matrix.columns)};
    chosen<isa>().batchShaped->run(rounded, prepared, rowCount, batchRows, bias, begin, end, output, stride);
  };
}

// Operations without a sum that a batch could split: the canonical kernels, rounded to bf16 as a GPU stores them.
template <Isa isa> void roundElements(Kernels& kernels) {
  static constexpr auto rounded = [](Schedule schedule, float* row, int32_t count) {
    if (schedule == Schedule::fast) chosen<isa>().elements->roundBf16(row, count);
  };
  kernels.embed = [](const Matrix& matrix, Schedule schedule, int32_t token, float* output) {
    packOf<isa>(matrix.format).embed(matrix, token, output);
    rounded(schedule, output, matrix.columns);
  };
  kernels.rmsNorm = [](Schedule schedule, const float* input, const float* weight, int32_t width, int32_t groupCount,
                       float scaledEpsilon, float rootWidth, float* output) {
    chosen<isa>().elements->rmsNorm(input, weight, width, groupCount, scaledEpsilon, rootWidth, output);
    rounded(schedule, output, width * groupCount);
  };
  kernels.rope = [](Schedule schedule, float* row, int32_t headCount, int32_t headSize, const float* cosine, const float* sine) {
    chosen<isa>().elements->rope(row, headCount, headSize, cosine, sine);
    rounded(schedule, row, headCount * headSize);
  };
  kernels.swiglu = [](Schedule schedule, const float* gate, const float* up, int32_t count, float* output) {
    chosen<isa>().elements->swigluCanonical(gate, up, count, output);
    rounded(schedule, output, count);
  };
  kernels.add = [](Schedule schedule, const float* left, const float* right, int32_t count, float* output) {
    chosen<isa>().elements->add(left, right, count, output);
    rounded(schedule, output, count);
  };
}

template <Isa isa> Kernels makeBatchShaped() {
  Kernels kernels = makeKernels<isa>();
  addBatchShapedLinear<isa>(kernels);
  roundElements<isa>(kernels);
  kernels.attentionScratchBytes = [](int32_t headSize, int32_t headsPerKv, int32_t contextLength) {
    const AttentionSet& attention = *chosen<isa>().attention;
    return std::max(attention.attentionScratchBytes(headSize, headsPerKv, contextLength), attention.batchShapedScratchBytes());
  };
  kernels.attention = [](Schedule schedule, const AttentionArgs& args) {
    const AttentionSet& attention = *chosen<isa>().attention;
    if (schedule == Schedule::fast) attention.batchShapedAttention(args);
    else attention.attention(schedule, args);
  };
  return kernels;
}

template <Isa isa> const Kernels* kernelsOf(FastKernels fast) {
  static const Kernels native = makeKernels<isa>();
  static const Kernels batchShaped = makeBatchShaped<isa>();
  return fast == FastKernels::native ? &native : &batchShaped;
}

}  // namespace

const Kernels* kernelsFor(Isa isa, FastKernels fast, const char** reason) {
  const char* missing = isa == Isa::avx512 ? features().missingAvx512 : isa == Isa::avx2 ? features().missingAvx2 : nullptr;
  if (reason) *reason = missing;
  if (missing) return nullptr;
#if defined(__x86_64__)
  if (isa == Isa::avx512) return kernelsOf<Isa::avx512>(fast);
  if (isa == Isa::avx2) return kernelsOf<Isa::avx2>(fast);
#endif
  return kernelsOf<Isa::scalar>(fast);
}

}  // namespace stet::cpu
