// Of attention_fast.wgsl: workgroups of different z share the context of the same rows; attention_fast_joined.wgsl joins them.

/// [z][row][head][headSize + 2]: the maximum, the sum of weights, and of weighted V, not divided. A sum of 0 where z saw nothing.
@group(0) @binding(7) var<storage, read_write> partials: array<f32>;

fn first_row_of(group: vec3<u32>) -> u32 {
  return group.y;
}

/// Begin and end of the chunks that a workgroup looks at, of `chunk_count`.
fn split_of(group: vec3<u32>, group_counts: vec3<u32>, chunk_count: u32) -> vec2<u32> {
  let size = (chunk_count + group_counts.z - 1u) / group_counts.z;
  return vec2<u32>(min(group.z * size, chunk_count), min((group.z + 1u) * size, chunk_count));
}

fn partial_place(group: vec3<u32>, place: u32) -> u32 {
  return (group.z * batch.rowCount * params.headCount + place) * (params.headSize + 2u);
}

fn store_sums(group: vec3<u32>, place: u32, lane: u32, most: f32, sum: f32) {
  if (lane == 0u) {
    partials[partial_place(group, place)] = most;
    partials[partial_place(group, place) + 1u] = sum;
  }
}

fn store_element(group: vec3<u32>, place: u32, element: u32, x: f32, sum: f32) {
  partials[partial_place(group, place) + 2u + element] = x;
}
