// In front of linears of byte formats: their inputs, Q15 blocks made by prepare_q15.wgsl.

/// [row][block]: two vectors of the high plane, two of the low one; four i8 a word.
@group(0) @binding(2) var<storage, read> planes: array<vec4<u32>>;
/// [row][block]: (2^e, z)
@group(0) @binding(5) var<storage, read> inputScales: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read_write> output: array<f32>;

fn dot16(a: vec4<u32>, b: vec4<u32>) -> i32 {
  return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}

/// Sums of products of 32 quants with the high and with the low plane of input block x.
fn block_dots(first: vec4<u32>, second: vec4<u32>, x: u32) -> vec2<i32> {
  let place = x * 4u;
  return vec2<i32>(
    dot16(first, planes[place]) + dot16(second, planes[place + 1u]),
    dot16(first, planes[place + 2u]) + dot16(second, planes[place + 3u]),
  );
}
