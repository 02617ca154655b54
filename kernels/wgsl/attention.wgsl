// Canonical attention, one workgroup a row and query head: chunk by chunk of attention_chunk.wgsl, joined as they come.

@group(0) @binding(7) var<storage, read_write> output: array<f32>;

/// Each element by one invocation alone.
var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let task = task_of(row, group.x);
  load_query(task, lane);
  let first_chunk = task.first / 64u;
  var most = 0;
  var denominator = 0.0;
  for (var element = lane; element < params.headSize; element += 64u) {
    sums[element] = 0.0;
  }
  for (var chunk = first_chunk; chunk <= task.last / 64u; chunk++) {
    let chunk_maximum = weigh_chunk(task, chunk, lane);
    let join = join_of(most, chunk_maximum, chunk == first_chunk);
    most = join.most;
    denominator = joined(join, denominator, f32(atomicLoad(&chunk_sum)));
    for (var element = lane; element < params.headSize; element += 64u) {
      sums[element] = joined(join, sums[element], chunk_value(task, chunk, chunk_maximum, element));
    }
  }
  let inverse = recip16(denominator);
  for (var element = lane; element < params.headSize; element += 64u) {
    output[task.start + element] = sums[element] * inverse;
  }
}
