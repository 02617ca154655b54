// output = input / rms(input) · weight of each group of a row (docs/NUMERICS.md). One workgroup a row and group: 128 lanes of exact
// squares in f32, each ascending, then folds of 64, 32, .. 1. Both schedules.
// input_at reads the input, or the output where they are one buffer; input_row is the row that makes row `row` of the output.

struct Params {
  /// Of a row, and of each of its groups, which share the weight.
  width: u32,
  groupWidth: u32,
  /// fl(groupWidth·epsilon) and fl(sqrt groupWidth)
  scaledEpsilon: f32,
  rootWidth: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;

var<workgroup> lanes: array<f32, 128>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let group_start = group.x * params.groupWidth;
  let source = input_row(row) * params.width + group_start;
  let target_start = row * params.width + group_start;
  var sum = 0.0;
  for (var i = lane; i < params.groupWidth; i += 128u) {
    let x = r12(input_at(source + i));
    sum = fence(sum + x * x);
  }
  lanes[lane] = sum;
  workgroupBarrier();
  for (var width = 64u; width > 0u; width = width >> 1u) {
    if (lane < width) {
      lanes[lane] = fence(lanes[lane] + lanes[lane + width]);
    }
    workgroupBarrier();
  }
  let inverse = r16(rsqrt16(fence(lanes[0] + params.scaledEpsilon)) * params.rootWidth);
  for (var i = lane; i < params.groupWidth; i += 128u) {
    output[target_start + i] = b1(input_at(source + i) * inverse) * weight[i];
  }
}
