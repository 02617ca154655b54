// Canonical attention for few rows, first half: one workgroup a chunk, row and query head; attention_joined.wgsl joins them.

/// [chunk of the row][row][head][headSize + 2]: M_c, bits of f32 of l_c and of o_c.
@group(0) @binding(7) var<storage, read_write> partials: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let task = task_of(group.y, group.x);
  let chunk = task.first / 64u + group.z;
  if (chunk > task.last / 64u) {
    return;
  }
  load_query(task, lane);
  let most = weigh_chunk(task, chunk, lane);
  let place = ((group.z * batch.rowCount + group.y) * params.headCount + group.x) * (params.headSize + 2u);
  if (lane == 0u) {
    partials[place] = bitcast<u32>(most);
    partials[place + 1u] = bitcast<u32>(f32(atomicLoad(&chunk_sum)));
  }
  for (var element = lane; element < params.headSize; element += 64u) {
    partials[place + 2u + element] = bitcast<u32>(chunk_value(task, chunk, most, element));
  }
}
