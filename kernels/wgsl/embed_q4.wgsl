// Elements of a q4 table, (q - 8)·s + c: the product is exact, the sum rounded once. A block at a time.

const SPAN = 32u;
/// [block][token]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
/// [block][token]: bf16 bits of s in the low, of c in the high half.
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Elements {
  nibbles: vec4<u32>,
  scale: f32,
  centre: f32,
}

fn load_elements(block: u32, token: u32) -> Elements {
  let pair = scales[block * params.tokenCount + token];
  return Elements(data[block * params.tokenCount + token], bitcast<f32>(pair << 16u), bitcast<f32>(pair & 0xffff0000u));
}

fn element_at(elements: Elements, i: u32) -> f32 {
  let quant = (elements.nibbles[(i & 15u) >> 2u] >> (8u * (i & 3u) + ((i >> 4u) << 2u))) & 15u;
  return fence(f32(i32(quant) - 8) * elements.scale + elements.centre);
}
