// In front of byte_linear_row.wgsl and byte_linear.wgsl: the blocks of q4 weights, and what a block adds: first
// dot(q - 8, high)·s·2^e, then dot(q - 8, low)·s·2^(e-7), then z·c. The dots are exact in i32, the products in f32.

/// [block][output]: byte i has q of element i in its low and of element i + 16 in its high half.
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
/// [block][output]: bf16 bits of s in the low, of c in the high half.
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Weights {
  first: vec4<u32>,
  second: vec4<u32>,
  scale: f32,
  centre: f32,
}

/// q - 8 of each byte, q in 0..15: the top bit keeps bytes from borrowing.
fn less_eight(q: vec4<u32>) -> vec4<u32> {
  return ((q | vec4<u32>(0x80808080u)) - vec4<u32>(0x08080808u)) ^ vec4<u32>(0x80808080u);
}

fn load_weights(block: u32, n: u32) -> Weights {
  let place = block * params.outputCount + n;
  let nibbles = data[place];
  let pair = scales[place];
  return Weights(
    less_eight(nibbles & vec4<u32>(0x0f0f0f0fu)),
    less_eight((nibbles >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)),
    bitcast<f32>(pair << 16u),
    bitcast<f32>(pair & 0xffff0000u),
  );
}

fn add_block(start: f32, w: Weights, x: u32) -> f32 {
  let dots = block_dots(w.first, w.second, x);
  let inputScale = inputScales[x];
  let scale = w.scale * inputScale.x;
  var sum = fence(start + f32(dots.x) * scale);
  sum = fence(sum + f32(dots.y) * (scale * 0.0078125));
  return fence(sum + inputScale.y * w.centre);
}

fn add_block4(start: vec4<f32>, w: Weights, x: vec4<u32>) -> vec4<f32> {
  let d0 = block_dots(w.first, w.second, x.x);
  let d1 = block_dots(w.first, w.second, x.y);
  let d2 = block_dots(w.first, w.second, x.z);
  let d3 = block_dots(w.first, w.second, x.w);
  let s0 = inputScales[x.x];
  let s1 = inputScales[x.y];
  let s2 = inputScales[x.z];
  let s3 = inputScales[x.w];
  let scale = vec4<f32>(s0.x, s1.x, s2.x, s3.x) * w.scale;
  var sum = fence4(start + vec4<f32>(f32(d0.x), f32(d1.x), f32(d2.x), f32(d3.x)) * scale);
  sum = fence4(sum + vec4<f32>(f32(d0.y), f32(d1.y), f32(d2.y), f32(d3.y)) * (scale * 0.0078125));
  return fence4(sum + vec4<f32>(s0.y, s1.y, s2.y, s3.y) * w.centre);
}
