// output = input · Wᵀ + bias for one row or few, W in bf16, inputs rounded to 16 bits. Accumulates f32 of exact products:
// k ascending in segments of 256, segments ascending, then the bias. Canonical.
// A workgroup has one row, OUTPUTS outputs (a power of two) and LANES segments at a time: each invocation adds up one segment
// of one output, those of the first lane join the segments in order.

@group(0) @binding(2) var<storage, read> input: array<f32>;
/// [ceil(columns / 8)][output]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

/// Rounded inputs of LANES segments.
var<workgroup> tile: array<vec4<f32>, LANES * 64>;
/// [segment][output]
var<workgroup> sums: array<f32, LANES * OUTPUTS>;

/// Past the row's end 0.
fn input_at(row: u32, column: u32) -> f32 {
  if (column >= params.columns) {
    return 0.0;
  }
  return r16(input[row * params.columns + column]);
}

fn add_octet(start: f32, w: vec4<u32>, x: vec4<f32>, y: vec4<f32>) -> f32 {
  let even = bitcast<vec4<f32>>(w << vec4<u32>(16u));
  let odd = bitcast<vec4<f32>>(w & vec4<u32>(0xffff0000u));
  var sum = fence(start + x.x * even.x);
  sum = fence(sum + x.y * odd.x);
  sum = fence(sum + x.z * even.y);
  sum = fence(sum + x.w * odd.y);
  sum = fence(sum + y.x * even.z);
  sum = fence(sum + y.y * odd.z);
  sum = fence(sum + y.z * even.w);
  return fence(sum + y.w * odd.w);
}

@compute @workgroup_size(OUTPUTS * LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let n = group.x * OUTPUTS + (local & (OUTPUTS - 1u));
  let source = min(n, params.outputCount - 1u);
  let lane = local / OUTPUTS;
  let octetCount = (params.columns + 7u) >> 3u;
  var total = 0.0;
  for (var first = 0u; first < octetCount; first += LANES * 32u) {
    for (var i = local; i < LANES * 64u; i += OUTPUTS * LANES) {
      let column = first * 8u + i * 4u;
      tile[i] = vec4<f32>(
        input_at(row, column),
        input_at(row, column + 1u),
        input_at(row, column + 2u),
        input_at(row, column + 3u),
      );
    }
    workgroupBarrier();
    let end = min(first + lane * 32u + 32u, octetCount);
    var segment = 0.0;
    for (var octet = first + lane * 32u; octet < end; octet++) {
      let x = (octet - first) * 2u;
      segment = add_octet(segment, data[octet * params.outputCount + source], tile[x], tile[x + 1u]);
    }
    sums[local] = segment;
    workgroupBarrier();
    // Segments past the end are +0 and change nothing.
    if (lane == 0u) {
      for (var i = local; i < LANES * OUTPUTS; i += OUTPUTS) {
        total = fence(total + sums[i]);
      }
    }
  }
  if (lane == 0u && n < params.outputCount) {
    let o = params.firstOutput + n;
    output[row * params.stride + o] = with_bias(total, o);
  }
}
