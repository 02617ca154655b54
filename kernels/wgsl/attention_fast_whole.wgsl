// Of attention_fast.wgsl: a workgroup looks at the whole context of its rows and writes the result.

@group(0) @binding(7) var<storage, read_write> output: array<f32>;

fn first_row_of(group: vec3<u32>) -> u32 {
  return group.y + group.z * 65535u;
}

/// Begin and end of the chunks that a workgroup looks at, of `chunk_count`.
fn split_of(group: vec3<u32>, group_counts: vec3<u32>, chunk_count: u32) -> vec2<u32> {
  return vec2<u32>(0u, chunk_count);
}

fn store_sums(group: vec3<u32>, place: u32, lane: u32, most: f32, sum: f32) {}

fn store_element(group: vec3<u32>, place: u32, element: u32, x: f32, sum: f32) {
  output[place * params.headSize + element] = x / sum;
}
