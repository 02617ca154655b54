// Rotates the heads of a buffer in place by the position of their row, pairs (i, i + headSize / 2), by exact products of halves
// (docs/NUMERICS.md). One pair an invocation. Both schedules.

struct Params {
  headCount: u32,
  /// headSize / 2
  pairCount: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
/// (cosine, sine) of [position][pair]
@group(0) @binding(3) var<storage, read> turns: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> buffer: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.y + id.z * 65535u;
  if (row >= batch.rowCount || id.x >= params.headCount * params.pairCount) {
    return;
  }
  let head = id.x / params.pairCount;
  let pair = id.x - head * params.pairCount;
  let turn = turns[u32(rows[row].y) * params.pairCount + pair];
  let first = (row * params.headCount + head) * (2u * params.pairCount) + pair;
  let second = first + params.pairCount;
  let a = split(buffer[first]);
  let b = split(buffer[second]);
  buffer[first] = b1(fence(a.x * turn.x - b.x * turn.y)) + b1(fence(a.y * turn.x - b.y * turn.y));
  buffer[second] = b1(fence(a.x * turn.y + b.x * turn.x)) + b1(fence(a.y * turn.y + b.y * turn.x));
}
