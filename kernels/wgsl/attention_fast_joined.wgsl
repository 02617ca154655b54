// Joins what workgroups of attention_fast.wgsl left that shared the context of a row. One workgroup a row and head; z of the dispatch is that of the split, and the
// workgroups of z > 0 do nothing.

struct Params {
  headSize: u32,
  headCount: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> partials: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) group_counts: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  if (group.z > 0u) {
    return;
  }
  let own = group.y * params.headCount + group.x;
  let stride = batch.rowCount * params.headCount * (params.headSize + 2u);
  let place = own * (params.headSize + 2u);
  var most = partials[place];
  for (var z = 1u; z < group_counts.z; z++) {
    most = max(most, partials[place + z * stride]);
  }
  for (var element = lane; element < params.headSize; element += 64u) {
    var denominator = 0.0;
    var sum = 0.0;
    for (var z = 0u; z < group_counts.z; z++) {
      let factor = exp2(partials[place + z * stride] - most);
      denominator += factor * partials[place + z * stride + 1u];
      sum += factor * partials[place + z * stride + 2u + element];
    }
    output[own * params.headSize + element] = sum / denominator;
  }
}
