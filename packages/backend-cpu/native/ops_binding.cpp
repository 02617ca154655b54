// One operation on plain arrays, for golden vectors: what the kernels compute apart from any model. Runs at once on the
// calling thread; the cases are small.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "binding.h"
#include "memory.h"

namespace stet::cpu {
namespace {

void require(bool condition, const char* message) {
  if (!condition) throw std::logic_error(message);
}

Schedule scheduleOf(const Args& args, size_t index) {
  const int32_t value = args.integer(index);
  require(value == 0 || value == 1, "unknown schedule");
  return static_cast<Schedule>(value);
}

struct PackedMatrix {
  Region memory;
  Matrix matrix;
};

// Arguments from `index` on: format, rows, columns, bits or quants or nibbles, scales or undefined, centres or undefined.
PackedMatrix packedMatrix(const Args& args, const Kernels& kernels, size_t index) {
  MatrixSource source{};
  source.format = static_cast<Format>(args.integer(index));
  source.rows = args.integer(index + 1);
  source.columns = args.integer(index + 2);
  require(source.rows > 0 && source.columns > 0, "a matrix has no elements");
  const auto rows = static_cast<size_t>(source.rows);
  if (source.format == Format::bf16) {
    const auto bits = args.words(index + 3);
    require(bits.length == rows * source.columns, "a bf16 matrix has another size");
    source.bits = bits.data;
  } else if (source.format == Format::q8) {
    const auto quants = args.bytes(index + 3);
    const auto scales = args.floats(index + 4);
    const size_t blocks = rows * ((source.columns + 31) / 32);
    require(quants.length == blocks * 32 && scales.length == blocks, "a q8 matrix has another size");
    requireQ8Scales(quants, scales);
    source.quants = quants.data;
    source.scales = scales.data;
  } else {
    require(source.format == Format::q4, "unknown weight format");
    const auto nibbles = args.unsignedBytes(index + 3);
    const auto scales = args.words(index + 4);
    const auto centres = args.words(index + 5);
    const size_t blocks = rows * ((source.columns + 31) / 32);
    require(nibbles.length == blocks * 16 && scales.length == blocks && centres.length == blocks, "a q4 matrix has another size");
    source.nibbles = nibbles.data;
    source.scales16 = scales.data;
    source.centres16 = centres.data;
  }
  PackedMatrix packed{Region(kernels.matrixBytes(source.format, source.rows, source.columns)), {}};
  const int32_t tiles = (source.rows + kernels.tileRows - 1) / kernels.tileRows;
  kernels.packMatrix(source, 0, tiles, packed.memory.data());
  packed.matrix = {source.format, source.rows, source.columns, packed.memory.data()};
  return packed;
}

// opPack(isa, format, rows, columns, data, scales, centres) → Uint8Array: the packed form, which differs between kernels.
napi_value opPack(Args& args) {
  const PackedMatrix packed = packedMatrix(args, args.kernels(0), 1);
  void* target = nullptr;
  napi_value buffer, array;
  check(args.env(), napi_create_arraybuffer(args.env(), packed.memory.size(), &target, &buffer));
  std::memcpy(target, packed.memory.data(), packed.memory.size());
  check(args.env(), napi_create_typedarray(args.env(), napi_uint8_array, packed.memory.size(), buffer, 0, &array));
  return array;
}

// opEmbed(isa, schedule, format, rows, columns, data, scales, centres, tokens, output)
napi_value opEmbed(Args& args) {
  const Kernels& kernels = args.kernels(0);
  const Schedule schedule = scheduleOf(args, 1);
  const PackedMatrix table = packedMatrix(args, kernels, 2);
  const auto tokens = args.ints(8);
  const auto output = args.floats(9);
  const auto columns = static_cast<size_t>(table.matrix.columns);
  require(output.length == tokens.length * columns, "the output has another size");
  for (size_t i = 0; i < tokens.length; i++) {
    require(tokens.data[i] >= 0 && tokens.data[i] < table.matrix.rows, "a token is out of range");
    kernels.embed(table.matrix, schedule, tokens.data[i], output.data + i * columns);
  }
  return nullptr;
}

// opLinear(isa, schedule, format, rows, columns, data, scales, centres, bias, input, output)
napi_value opLinear(Args& args) {
  const Kernels& kernels = args.kernels(0);
  const Schedule schedule = scheduleOf(args, 1);
  const PackedMatrix weight = packedMatrix(args, kernels, 2);
  const Matrix& matrix = weight.matrix;
  const float* bias = nullptr;
  if (!args.absent(8)) {
    const auto values = args.floats(8);
    require(values.length == static_cast<size_t>(matrix.rows), "the bias has another size");
    bias = values.data;
  }
  const auto input = args.floats(9);
  const auto output = args.floats(10);
  const size_t rowCount = input.length / matrix.columns;
  require(input.length == rowCount * matrix.columns && output.length == rowCount * matrix.rows, "the input has another size");
  const size_t inputBytes = kernels.inputBytes(matrix.format, schedule, matrix.columns);
  const Region prepared(inputBytes * rowCount);
  for (size_t r = 0; r < rowCount; r++) {
    kernels.prepareInput(matrix.format, schedule, input.data + r * matrix.columns, matrix.columns,
                         prepared.data() + r * inputBytes);
  }
  const int32_t tiles = (matrix.rows + kernels.tileRows - 1) / kernels.tileRows;
  kernels.linear(matrix, schedule, prepared.data(), static_cast<int32_t>(rowCount), static_cast<int32_t>(rowCount), bias, 0, tiles, output.data, matrix.rows);
  return nullptr;
}

// opNorm(isa, schedule, groupCount, constants, weight, input, output)
napi_value opNorm(Args& args) {
  const Kernels& kernels = args.kernels(0);
  const Schedule schedule = scheduleOf(args, 1);
  const int32_t groupCount = args.integer(2);
  const auto constants = args.floats(3);
  const auto weight = args.floats(4);
  const auto input = args.floats(5);
  const auto output = args.floats(6);
  require(constants.length == 2 && weight.length > 0 && groupCount > 0, "rmsNorm needs two constants, a weight and groups");
  const size_t width = checkedProduct(weight.length, static_cast<size_t>(groupCount));
  require(input.length % width == 0 && output.length == input.length, "rmsNorm arrays do not fit together");
  for (size_t at = 0; at < input.length; at += width) {
    kernels.rmsNorm(schedule, input.data + at, weight.data, static_cast<int32_t>(weight.length), groupCount,
                    constants.data[0], constants.data[1], output.data + at);
  }
  return nullptr;
}

// opRope(isa, schedule, headCount, headSize, positions, cosine, sine, rows): rotates `rows` in place.
napi_value opRope(Args& args) {
  const Kernels& kernels = args.kernels(0);
  const Schedule schedule = scheduleOf(args, 1);
  const int32_t headCount = args.integer(2);
  const int32_t headSize = args.integer(3);
  const auto positions = args.ints(4);
  const auto cosine = args.floats(5);
  const auto sine = args.floats(6);
  const auto rows = args.floats(7);
  const size_t width = static_cast<size_t>(headCount) * headSize;
  const size_t pairs = headSize / 2;
  require(rows.length == positions.length * width && cosine.length == sine.length, "rope arrays do not fit together");
  for (size_t r = 0; r < positions.length; r++) {
    const auto offset = static_cast<size_t>(positions.data[r]) * pairs;
    require(positions.data[r] >= 0 && offset + pairs <= cosine.length, "a position is past the rope tables");
    kernels.rope(schedule, rows.data + r * width, headCount, headSize, cosine.data + offset, sine.data + offset);
  }
  return nullptr;
}

struct KvCase {
  int32_t headCount, kvHeadCount, headSize, blockSize;
  size_t positionCount;
  std::vector<int32_t> blocks;
  Region memory;
  size_t headBytes;

  KvCase(const Kernels& kernels, ArrayView<int32_t> sizes, ArrayView<float> key)
      : headCount(sizes.data[0]), kvHeadCount(sizes.data[1]), headSize(sizes.data[2]), blockSize(sizes.data[3]) {
    require(kvHeadCount > 0 && headSize > 0 && blockSize > 0 && headCount % kvHeadCount == 0, "impossible attention sizes");
    positionCount = key.length / (static_cast<size_t>(kvHeadCount) * headSize);
    const auto blockCount = static_cast<int32_t>((positionCount + blockSize - 1) / blockSize);
    // In reverse, so that the block table matters.
    for (int32_t i = 0; i < blockCount; i++) blocks.push_back(blockCount - 1 - i);
    headBytes = kernels.kvBlockBytes(headSize, blockSize);
    memory = Region(headBytes * kvHeadCount * blockCount);
  }
  std::byte* block(size_t position, int32_t head) const {
    return memory.data() + (static_cast<size_t>(blocks[position / blockSize]) * kvHeadCount + head) * headBytes;
  }
};

// opAttention(isa, schedule, [headCount, kvHeadCount, headSize, blockSize, windowSize or 0], scale, key, value, query, positions, output)
napi_value opAttention(Args& args) {
  constexpr size_t kMostRows = 16;
  const Kernels& kernels = args.kernels(0);
  const Schedule schedule = scheduleOf(args, 1);
  const auto sizes = args.ints(2);
  const auto scale = args.floats(3);
  const auto key = args.floats(4);
  const auto value = args.floats(5);
  const auto query = args.floats(6);
  const auto positions = args.ints(7);
  const auto output = args.floats(8);
  require(sizes.length == 5 && sizes.data[4] >= 0 && scale.length == 1, "attention needs five sizes and a scale");
  const KvCase kv(kernels, sizes, key);
  const size_t kvWidth = static_cast<size_t>(kv.kvHeadCount) * kv.headSize;
  const size_t width = static_cast<size_t>(kv.headCount) * kv.headSize;
  require(key.length == kv.positionCount * kvWidth && value.length == key.length, "key and value do not fit together");
  require(query.length == positions.length * width && output.length == query.length, "query and output do not fit together");
  for (size_t p = 0; p < kv.positionCount; p++) {
    for (int32_t head = 0; head < kv.kvHeadCount; head++) {
      const size_t at = p * kvWidth + static_cast<size_t>(head) * kv.headSize;
      kernels.kvWrite(key.data + at, value.data + at, kv.headSize, kv.blockSize, static_cast<int32_t>(p % kv.blockSize),
                      kv.block(p, head));
    }
  }
  const int32_t headsPerKv = kv.headCount / kv.kvHeadCount;
  const Region scratch(
      kernels.attentionScratchBytes(kv.headSize, headsPerKv, static_cast<int32_t>(kv.blocks.size()) * kv.blockSize));
  // Rows at consecutive positions attend together, as they do in a prefill.
  const auto endOfRun = [&](size_t row) {
    size_t end = row + 1;
    while (end < positions.length && end - row < kMostRows && positions.data[end] == positions.data[end - 1] + 1) end++;
    return end;
  };
  int32_t runCount = 0;
  for (size_t row = 0; row < positions.length; row = endOfRun(row)) runCount++;
  for (size_t row = 0; row < positions.length;) {
    const size_t end = endOfRun(row);
    require(positions.data[row] >= 0 && static_cast<size_t>(positions.data[end - 1]) < kv.positionCount,
            "a query is past the keys");
    for (int32_t head = 0; head < kv.kvHeadCount; head++) {
      const size_t at = row * width + static_cast<size_t>(head) * headsPerKv * kv.headSize;
      AttentionArgs attention{};
      attention.query = query.data + at;
      attention.queryStride = static_cast<int64_t>(width);
      attention.rowCount = static_cast<int32_t>(end - row);
      attention.headsPerKv = headsPerKv;
      attention.headSize = kv.headSize;
      attention.batchTasks = runCount * kv.kvHeadCount;
      attention.firstPosition = positions.data[row];
      attention.windowSize = sizes.data[4];
      attention.blockSize = kv.blockSize;
      attention.blocks = kv.blocks.data();
      attention.kv = kv.memory.data() + static_cast<size_t>(head) * kv.headBytes;
      attention.blockStride = static_cast<int64_t>(kv.headBytes * kv.kvHeadCount);
      attention.scale = scale.data[0];
      attention.output = output.data + at;
      attention.outputStride = static_cast<int64_t>(width);
      attention.scratch = scratch.data();
      kernels.attention(schedule, attention);
    }
    row = end;
  }
  return nullptr;
}

// opSwiglu(isa, schedule, gate, up, output)
napi_value opSwiglu(Args& args) {
  const Kernels& kernels = args.kernels(0);
  const auto gate = args.floats(2);
  const auto up = args.floats(3);
  const auto output = args.floats(4);
  require(gate.length == up.length && gate.length == output.length, "swiglu arrays do not fit together");
  kernels.swiglu(scheduleOf(args, 1), gate.data, up.data, static_cast<int32_t>(gate.length), output.data);
  return nullptr;
}

// opAdd(isa, schedule, left, right, output)
napi_value opAdd(Args& args) {
  const Kernels& kernels = args.kernels(0);
  const Schedule schedule = scheduleOf(args, 1);
  const auto left = args.floats(2);
  const auto right = args.floats(3);
  const auto output = args.floats(4);
  require(left.length == right.length && left.length == output.length, "add arrays do not fit together");
  kernels.add(schedule, left.data, right.data, static_cast<int32_t>(left.length), output.data);
  return nullptr;
}

}  // namespace

void exportOps(napi_env env, napi_value exports) {
  exportFunction(env, exports, "opPack", callback<opPack>);
  exportFunction(env, exports, "opEmbed", callback<opEmbed>);
  exportFunction(env, exports, "opLinear", callback<opLinear>);
  exportFunction(env, exports, "opNorm", callback<opNorm>);
  exportFunction(env, exports, "opRope", callback<opRope>);
  exportFunction(env, exports, "opAttention", callback<opAttention>);
  exportFunction(env, exports, "opSwiglu", callback<opSwiglu>);
  exportFunction(env, exports, "opAdd", callback<opAdd>);
}

}  // namespace stet::cpu
