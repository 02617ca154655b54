// Elements of a bf16 table, exact: eight at a time.

const SPAN = 8u;
/// [ceil(columns / 8)][token]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;

fn load_elements(octet: u32, token: u32) -> vec4<u32> {
  return data[octet * params.tokenCount + token];
}

fn element_at(octet: vec4<u32>, i: u32) -> f32 {
  let pair = octet[i >> 1u];
  return bitcast<f32>(select(pair << 16u, pair & 0xffff0000u, (i & 1u) == 1u));
}
