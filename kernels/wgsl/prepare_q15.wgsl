// Q15 blocks of 32 along rows of f32 (rows × width), for linears of byte formats: planes, 2^e, and z of docs/NUMERICS.md.
// Eight invocations a block. Accumulates i32, in any order. Both schedules.

struct Params {
  width: u32,
  /// Of a row: ceil(width / 32).
  blockCount: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<f32>;
/// [row][block]: eight words of the high plane, eight of the low one.
@group(0) @binding(3) var<storage, read_write> planes: array<u32>;
/// [row][block]: (2^e, z)
@group(0) @binding(4) var<storage, read_write> scales: array<vec2<f32>>;

/// Of each invocation's four values: the largest magnitude's bits, the sum of quants.
var<workgroup> magnitudes: array<u32, 64>;
var<workgroup> sums: array<i32, 64>;

/// Elements of a row past its end are 0.
fn input_at(row: u32, column: u32) -> f32 {
  if (column >= params.width) {
    return 0.0;
  }
  return input[row * params.width + column];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let slot = local >> 3u;
  let word = local & 7u;
  let block = group.x * 8u + slot;
  let column = block * 32u + word * 4u;
  let x = vec4<f32>(
    input_at(row, column),
    input_at(row, column + 1u),
    input_at(row, column + 2u),
    input_at(row, column + 3u),
  );
  let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
  magnitudes[local] = max(max(bits.x, bits.y), max(bits.z, bits.w));
  workgroupBarrier();
  var largest = 0u;
  for (var i = 0u; i < 8u; i++) {
    largest = max(largest, magnitudes[slot * 8u + i]);
  }
  let exponent = block_exponent(largest);
  let scale = pow2(7 - exponent);
  let q0 = q15(x.x, scale);
  let q1 = q15(x.y, scale);
  let q2 = q15(x.z, scale);
  let q3 = q15(x.w, scale);
  let high = vec4<i32>(q0.x, q1.x, q2.x, q3.x);
  let low = vec4<i32>(q0.y, q1.y, q2.y, q3.y);
  let values = high * 128 + low;
  sums[local] = values.x + values.y + values.z + values.w;
  workgroupBarrier();
  if (block >= params.blockCount) {
    return;
  }
  let place = row * params.blockCount + block;
  planes[place * 16u + word] = pack4(high);
  planes[place * 16u + 8u + word] = pack4(low);
  if (word == 0u) {
    var sum = 0;
    for (var i = 0u; i < 8u; i++) {
      sum += sums[local + i];
    }
    let z = r16(f32(sum)) * pow2(exponent - 7);
    scales[place] = vec2<f32>(pow2(exponent), z);
  }
}
