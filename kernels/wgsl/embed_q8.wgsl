// Elements of a q8 table, q·s, exact: half a block at a time.

const SPAN = 16u;
/// [block][half][token]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
/// [block][token]
@group(0) @binding(4) var<storage, read> scales: array<f32>;

struct Elements {
  quants: vec4<u32>,
  scale: f32,
}

fn load_elements(half: u32, token: u32) -> Elements {
  return Elements(data[half * params.tokenCount + token], scales[(half >> 1u) * params.tokenCount + token]);
}

fn element_at(elements: Elements, i: u32) -> f32 {
  let quant = bitcast<i32>(elements.quants[i >> 2u] << (24u - 8u * (i & 3u))) >> 24u;
  return f32(quant) * elements.scale;
}
