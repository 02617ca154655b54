// In front of byte_linear_row.wgsl and byte_linear.wgsl: the blocks of q8 weights, and what a block adds: first
// dot(q, high)·s·2^e, then dot(q, low)·s·2^(e-7). The dots are exact in i32, the products in f32.

/// [block][half][output]: 16 i8 each.
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
/// [block][output]
@group(0) @binding(4) var<storage, read> scales: array<f32>;

struct Weights {
  first: vec4<u32>,
  second: vec4<u32>,
  scale: f32,
}

fn load_weights(block: u32, n: u32) -> Weights {
  let place = block * 2u * params.outputCount + n;
  return Weights(data[place], data[place + params.outputCount], scales[block * params.outputCount + n]);
}

fn add_block(start: f32, w: Weights, x: u32) -> f32 {
  let dots = block_dots(w.first, w.second, x);
  let scale = w.scale * inputScales[x].x;
  let sum = fence(start + f32(dots.x) * scale);
  return fence(sum + f32(dots.y) * (scale * 0.0078125));
}

fn add_block4(start: vec4<f32>, w: Weights, x: vec4<u32>) -> vec4<f32> {
  let d0 = block_dots(w.first, w.second, x.x);
  let d1 = block_dots(w.first, w.second, x.y);
  let d2 = block_dots(w.first, w.second, x.z);
  let d3 = block_dots(w.first, w.second, x.w);
  let powers = vec4<f32>(inputScales[x.x].x, inputScales[x.y].x, inputScales[x.z].x, inputScales[x.w].x);
  let scale = powers * w.scale;
  let sum = fence4(start + vec4<f32>(f32(d0.x), f32(d1.x), f32(d2.x), f32(d3.x)) * scale);
  return fence4(sum + vec4<f32>(f32(d0.y), f32(d1.y), f32(d2.y), f32(d3.y)) * (scale * 0.0078125));
}
