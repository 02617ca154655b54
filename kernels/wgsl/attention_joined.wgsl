// Canonical attention for few rows, second half: joins the chunks that workgroups of attention.wgsl left, in ascending order. One
// workgroup a row and head.

struct Params {
  headSize: u32,
  headCount: u32,
  /// Positions that a row attends to at most.
  window: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(3) var<storage, read> partials: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let position = u32(rows[group.y].y);
  let first = position + 1u - min(position + 1u, params.window);
  let chunk_count = position / 64u - first / 64u + 1u;
  let own = group.y * params.headCount + group.x;
  for (var element = lane; element < params.headSize; element += 64u) {
    var most = 0;
    var denominator = 0.0;
    var sum = 0.0;
    for (var chunk = 0u; chunk < chunk_count; chunk++) {
      let place = (chunk * batch.rowCount * params.headCount + own) * (params.headSize + 2u);
      let join = join_of(most, bitcast<i32>(partials[place]), chunk == 0u);
      most = join.most;
      denominator = joined(join, denominator, bitcast<f32>(partials[place + 1u]));
      sum = joined(join, sum, bitcast<f32>(partials[place + 2u + element]));
    }
    output[own * params.headSize + element] = sum * recip16(denominator);
  }
}
