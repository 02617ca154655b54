// What both fast linears share: the weights as f32, the rows of the input, and what becomes of a sum. Fast schedule alone: f32 sums in
// any order, f32 products of the weights as they are stored and the inputs as they are.
//
// output (rows × outputs) = input (rows × columns) · Wᵀ. Variants:
//   FORMAT_*: how the weights lie, see device-weight.ts. TWO: a second matrix of the same format and shape.
//   QUADS: columns are a multiple of 32, so that inputs are read as vec4; without it any number of columns.
//   NORM: the input is rmsNorm(input) of the rows given. GATHER: row r of the result is of row outputs[r] of the input.
//   BIAS: + bias. ADD: the output is added to. SWIGLU: silu(first matrix) · second. TWO without SWIGLU: two outputs.

struct Params {
  columns: u32,
  /// 16-byte vectors of one output's weights.
  steps: u32,
  /// Outputs of this part of the matrix, the first of them, and outputs of the whole.
  outputs: u32,
  firstOutput: u32,
  stride: u32,
//#if NORM
  epsilon: f32,
//#endif
}
@group(0) @binding(1) var<uniform> params: Params;
//#if QUADS
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
//#else
@group(0) @binding(2) var<storage, read> input: array<f32>;
//#endif
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
//#if FORMAT_Q8
@group(0) @binding(4) var<storage, read> scales: array<f32>;
//#endif
//#if FORMAT_Q4
@group(0) @binding(4) var<storage, read> scales: array<u32>;
//#endif
//#if TWO
@group(0) @binding(5) var<storage, read> secondData: array<vec4<u32>>;
//#if FORMAT_Q8
@group(0) @binding(6) var<storage, read> secondScales: array<f32>;
//#endif
//#if FORMAT_Q4
@group(0) @binding(6) var<storage, read> secondScales: array<u32>;
//#endif
//#endif
//#if NORM
//#if QUADS
@group(0) @binding(7) var<storage, read> normWeight: array<vec4<f32>>;
//#else
@group(0) @binding(7) var<storage, read> normWeight: array<f32>;
//#endif
//#endif
//#if BIAS
@group(0) @binding(8) var<storage, read> bias: array<f32>;
//#endif
//#if GATHER
@group(0) @binding(9) var<storage, read> outputs: array<i32>;
//#endif
@group(0) @binding(10) var<storage, read_write> output: array<f32>;
//#if STORE_TWO
@group(0) @binding(11) var<storage, read_write> secondOutput: array<f32>;
//#endif

//#if TWO
const MATRICES = 2u;
//#else
const MATRICES = 1u;
//#endif

/// 16 bytes of weights. A quant q stands in the mantissa of 1 + q/256 (q8, q = 128 + the signed one) or 1 + q/16 (q4), which is made
/// by a shift and a mask, without a conversion; a weight is then factor · that + offset.
struct Step {
  words: vec4<u32>,
//#if FORMAT_BYTES
  factor: f32,
  offset: f32,
//#endif
}

//#if FORMAT_BF16
/// Quads of four weights in a step.
const STEP_QUADS = 2u;

fn first_step(step: u32, n: u32) -> Step {
  return Step(data[step * params.outputs + n]);
}

//#if TWO
fn second_step(step: u32, n: u32) -> Step {
  return Step(secondData[step * params.outputs + n]);
}

//#endif
fn weight_quad(step: Step, quad: u32) -> vec4<f32> {
  let pair = select(step.words.xy, step.words.zw, quad == 1u);
  return bitcast<vec4<f32>>(vec4<u32>(pair.x << 16u, pair.x & 0xffff0000u, pair.y << 16u, pair.y & 0xffff0000u));
}
//#endif
//#if FORMAT_Q8
const STEP_QUADS = 4u;

fn q8_step(words: vec4<u32>, scale: f32) -> Step {
  return Step(words ^ vec4<u32>(0x80808080u), scale * 256.0, scale * -384.0);
}

fn first_step(step: u32, n: u32) -> Step {
  return q8_step(data[step * params.outputs + n], scales[(step >> 1u) * params.outputs + n]);
}

//#if TWO
fn second_step(step: u32, n: u32) -> Step {
  return q8_step(secondData[step * params.outputs + n], secondScales[(step >> 1u) * params.outputs + n]);
}

//#endif
fn weight_quad(step: Step, quad: u32) -> vec4<f32> {
  let word = step.words[quad];
  let bytes = vec4<u32>(word << 15u, word << 7u, word >> 1u, word >> 9u);
  let values = bitcast<vec4<f32>>((bytes & vec4<u32>(0x7f8000u)) | vec4<u32>(0x3f800000u));
  return values * step.factor + step.offset;
}
//#endif
//#if FORMAT_Q4
const STEP_QUADS = 8u;

fn q4_step(words: vec4<u32>, scale: u32) -> Step {
  let s = bitcast<f32>(scale << 16u);
  let centre = bitcast<f32>(scale & 0xffff0000u);
  return Step(words, s * 16.0, centre - s * 24.0);
}

fn first_step(step: u32, n: u32) -> Step {
  let i = step * params.outputs + n;
  return q4_step(data[i], scales[i]);
}

//#if TWO
fn second_step(step: u32, n: u32) -> Step {
  let i = step * params.outputs + n;
  return q4_step(secondData[i], secondScales[i]);
}

//#endif
/// Quads 0..3 are the low halves of the bytes, 4..7 the high ones.
fn weight_quad(step: Step, quad: u32) -> vec4<f32> {
  let word = step.words[quad & 3u] >> ((quad & 4u));
  let halves = vec4<u32>(word << 19u, word << 11u, word << 3u, word >> 5u);
  let values = bitcast<vec4<f32>>((halves & vec4<u32>(0x780000u)) | vec4<u32>(0x3f800000u));
  return values * step.factor + step.offset;
}
//#endif

fn load_step(matrix: u32, step: u32, n: u32) -> Step {
//#if TWO
  if (matrix == 1u) {
    return second_step(step, n);
  }
//#endif
  return first_step(step, n);
}

/// The row of the input that makes row `row` of the result.
fn input_row(row: u32) -> u32 {
  let last = min(row, batch.rowCount - 1u);
//#if GATHER
  return u32(outputs[last]);
//#else
  return last;
//#endif
}

//#if QUADS
fn quad_count() -> u32 {
  return params.columns >> 2u;
}

fn input_quad(row: u32, quad: u32) -> vec4<f32> {
  return input[row * quad_count() + quad];
}

//#if NORM
fn norm_quad(quad: u32) -> vec4<f32> {
  return normWeight[quad];
}
//#endif
//#else
fn quad_count() -> u32 {
  return (params.columns + 3u) >> 2u;
}

/// 0 past the end of the row.
fn input_value(row: u32, column: u32) -> f32 {
  let value = input[row * params.columns + min(column, params.columns - 1u)];
  return select(0.0, value, column < params.columns);
}

fn input_quad(row: u32, quad: u32) -> vec4<f32> {
  let column = quad * 4u;
  return vec4<f32>(
    input_value(row, column),
    input_value(row, column + 1u),
    input_value(row, column + 2u),
    input_value(row, column + 3u),
  );
}

//#if NORM
fn norm_value(column: u32) -> f32 {
  return normWeight[min(column, params.columns - 1u)];
}

fn norm_quad(quad: u32) -> vec4<f32> {
  let column = quad * 4u;
  return vec4<f32>(norm_value(column), norm_value(column + 1u), norm_value(column + 2u), norm_value(column + 3u));
}
//#endif
//#endif

//#if NORM
fn inverse_rms(squares: f32) -> f32 {
  return inverseSqrt(squares / f32(params.columns) + params.epsilon);
}
//#endif

/// Puts down output n of a row: the sum of the first matrix, and that of the second.
fn finish(row: u32, n: u32, first: f32, second: f32) {
  let i = row * params.stride + params.firstOutput + n;
  var value = first;
//#if BIAS
  value += bias[params.firstOutput + n];
//#endif
//#if SWIGLU
  // Below -80 the result is 0 in any case, and exp stays finite.
  value = value / (1.0 + exp(min(-value, 80.0))) * second;
//#endif
//#if ADD
  output[i] += value;
//#else
  output[i] = value;
//#endif
//#if STORE_TWO
  secondOutput[i] = second;
//#endif
}
