// The largest logit of each output, its token (the lowest among equals) and the runner-up, the largest of the other tokens.
// Two passes of this text: parts of a row of logits (joins = false), then the parts of an output (joins = true). Floats are
// compared as integers that have their order, so that the -Infinity of a vocabulary of 1 is a number like any other. Both schedules.

struct Params {
  /// Elements of a row of `source`: logits, or parts.
  width: u32,
  /// Elements that one workgroup takes.
  partWidth: u32,
  /// Index of the first row in `result`.
  firstRow: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
/// Bits of logits [row][width], or (token, key, key of the runner-up, 0) [row][width].
@group(0) @binding(2) var<storage, read> source: array<u32>;
/// The latter [firstRow + row][parts of a row]; in the last pass the bits of both logits in place of their keys.
@group(0) @binding(3) var<storage, read_write> result: array<u32>;

struct Best {
  token: u32,
  key: u32,
  runnerUp: u32,
}

const WORKGROUP = 64u;
/// The key of -Infinity.
const NO_LOGIT = 0x007fffffu;
const NONE = Best(0xffffffffu, 0u, NO_LOGIT);

var<workgroup> best: array<Best, WORKGROUP>;

fn key_of(bits: u32) -> u32 {
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn bits_of(key: u32) -> u32 {
  return select(~key, key & 0x7fffffffu, key >= 0x80000000u);
}

fn join(a: Best, b: Best) -> Best {
  if (b.key > a.key || (b.key == a.key && b.token < a.token)) {
    return Best(b.token, b.key, max(a.key, b.runnerUp));
  }
  return Best(a.token, a.key, max(a.runnerUp, b.key));
}

fn load(row: u32, i: u32) -> Best {
  if (joins) {
    let at = (row * params.width + i) * 4u;
    return Best(source[at], source[at + 1u], source[at + 2u]);
  }
  return Best(i, key_of(source[row * params.width + i]), NO_LOGIT);
}

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = group.x;
  let row = group.y;
  let end = min((part + 1u) * params.partWidth, params.width);
  var found = NONE;
  for (var i = part * params.partWidth + lane; i < end; i += WORKGROUP) {
    found = join(found, load(row, i));
  }
  best[lane] = found;
  workgroupBarrier();
  for (var stride = WORKGROUP / 2u; stride > 0u; stride = stride >> 1u) {
    if (lane < stride) {
      best[lane] = join(best[lane], best[lane + stride]);
    }
    workgroupBarrier();
  }
  if (lane != 0u) {
    return;
  }
  let answer = best[0];
  let at = ((params.firstRow + row) * groups.x + part) * 4u;
  result[at] = answer.token;
  result[at + 1u] = select(answer.key, bits_of(answer.key), joins);
  result[at + 2u] = select(answer.runnerUp, bits_of(answer.runnerUp), joins);
  result[at + 3u] = 0u;
}
