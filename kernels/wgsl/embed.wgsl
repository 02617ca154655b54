// output (rows × columns): rows of a table. embed_bf16.wgsl, embed_q8.wgsl and embed_q4.wgsl have the elements. Both schedules.

struct Params {
  columns: u32,
  /// The part of the table that is bound begins at this token.
  firstToken: u32,
  tokenCount: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(global_invocation_id) id: vec3<u32>) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let column = id.x * SPAN;
  let token = u32(rows[row].x) - params.firstToken;
  if (token >= params.tokenCount || column >= params.columns) {
    return;
  }
  let elements = load_elements(id.x, token);
  let place = row * params.columns + column;
  let count = min(SPAN, params.columns - column);
  for (var i = 0u; i < count; i++) {
    output[place + i] = element_at(elements, i);
  }
}
