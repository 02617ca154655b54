// output = left + right, rounded once. One element an invocation. Both schedules.
// left_at and right_at read the inputs, or the output where an input is the output's own buffer.

struct Params {
  width: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x + id.y * (65535u * 64u);
  if (i >= batch.rowCount * params.width) {
    return;
  }
  output[i] = left_at(i) + right_at(i);
}
