// Canonical attention, one workgroup a row and query head: chunk by chunk of attention_chunk.wgsl, joined as they come. Where the
// dispatch has more than one workgroup in z, each has a chunk of its own and attention_joined.wgsl joins them: the same bits.

@group(0) @binding(7) var<storage, read_write> output: array<f32>;
/// [z][row][head][headSize + 2]: M_c, and bits of f32 of l_c and of o_c.
@group(0) @binding(8) var<storage, read_write> partials: array<u32>;

/// Each element by one invocation alone.
var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) group_counts: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let task = task_of(group.y, group.x);
  let is_split = group_counts.z > 1u;
  let first_chunk = task.first / 64u + group.z;
  let last_chunk = select(task.last / 64u, min(first_chunk, task.last / 64u), is_split);
  if (first_chunk > last_chunk) {
    return;
  }
  load_query(task, lane);
  var most = 0;
  var denominator = 0.0;
  for (var element = lane; element < params.headSize; element += 64u) {
    sums[element] = 0.0;
  }
  for (var chunk = first_chunk; chunk <= last_chunk; chunk++) {
    let chunk_maximum = weigh_chunk(task, chunk, lane);
    let join = join_of(most, chunk_maximum, chunk == first_chunk);
    most = join.most;
    denominator = joined(join, denominator, f32(atomicLoad(&chunk_sum)));
    for (var element = lane; element < params.headSize; element += 64u) {
      sums[element] = joined(join, sums[element], chunk_value(task, chunk, chunk_maximum, element));
    }
  }
  if (is_split) {
    let place = ((group.z * batch.rowCount + group.y) * params.headCount + group.x) * (params.headSize + 2u);
    if (lane == 0u) {
      partials[place] = bitcast<u32>(most);
      partials[place + 1u] = bitcast<u32>(denominator);
    }
    for (var element = lane; element < params.headSize; element += 64u) {
      partials[place + 2u + element] = bitcast<u32>(sums[element]);
    }
  } else {
    let inverse = recip16(denominator);
    for (var element = lane; element < params.headSize; element += 64u) {
      output[task.start + element] = sums[element] * inverse;
    }
  }
}
