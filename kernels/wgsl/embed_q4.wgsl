// output (rows × columns): rows of a q4 table, (q - 8)·s + c: the product is exact, the sum rounded once. A block an invocation.
// Both schedules.

struct Params {
  columns: u32,
  /// The part of the table that is bound begins at this token.
  firstToken: u32,
  tokenCount: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
/// [block][token]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
/// [block][token]: bf16 bits of s in the low, of c in the high half.
@group(0) @binding(4) var<storage, read> scales: array<u32>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(global_invocation_id) id: vec3<u32>) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let column = id.x * 32u;
  let token = u32(rows[row].x) - params.firstToken;
  if (token >= params.tokenCount || column >= params.columns) {
    return;
  }
  let nibbles = data[id.x * params.tokenCount + token];
  let pair = scales[id.x * params.tokenCount + token];
  let scale = bitcast<f32>(pair << 16u);
  let centre = bitcast<f32>(pair & 0xffff0000u);
  let place = row * params.columns + column;
  let count = min(32u, params.columns - column);
  for (var i = 0u; i < count; i++) {
    let quant = (nibbles[(i & 15u) >> 2u] >> (8u * (i & 3u) + ((i >> 4u) << 2u))) & 15u;
    output[place + i] = fence(f32(i32(quant) - 8) * scale + centre);
  }
}
