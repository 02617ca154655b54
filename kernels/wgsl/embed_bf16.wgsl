// output (rows × columns): rows of a bf16 table, exact. Eight elements an invocation. Both schedules.

struct Params {
  columns: u32,
  /// The part of the table that is bound begins at this token.
  firstToken: u32,
  tokenCount: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
/// [ceil(columns / 8)][token]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(global_invocation_id) id: vec3<u32>) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let column = id.x * 8u;
  let token = u32(rows[row].x) - params.firstToken;
  if (token >= params.tokenCount || column >= params.columns) {
    return;
  }
  let octet = data[id.x * params.tokenCount + token];
  let place = row * params.columns + column;
  let count = min(8u, params.columns - column);
  for (var i = 0u; i < count; i++) {
    let pair = octet[i >> 1u];
    output[place + i] = bitcast<f32>(select(pair << 16u, pair & 0xffff0000u, (i & 1u) == 1u));
  }
}
