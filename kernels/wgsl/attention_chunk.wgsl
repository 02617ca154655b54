// One query head over one chunk of 64 positions (docs/NUMERICS.md), for workgroups of 64: an invocation scores one position, then
// sums elements of V. All sums within a chunk are of integers. In front of attention.wgsl.

struct Params {
  kvHeadCount: u32,
  headSize: u32,
  /// Of four elements, padded: a multiple of 8.
  headWords: u32,
  /// Positions of a block.
  blockSize: u32,
  exponentWords: u32,
  headBlockWords: u32,
  /// Query heads, and those that share one K/V head.
  headCount: u32,
  share: u32,
  /// Positions that a row attends to at most.
  window: u32,
  /// C: fl(65536·log2 e / sqrt(head size))
  scale: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(3) var<storage, read> tables: array<i32>;
@group(0) @binding(4) var<storage, read> query: array<f32>;
@group(0) @binding(5) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> values: array<u32>;

const LOWEST = -2147483647i;

var<workgroup> query_words: array<u32, 128>;
/// High plane, low plane at 16.
var<workgroup> query_planes: array<vec4<u32>, 32>;
var<workgroup> query_exponents: array<i32, 8>;
/// M_c, l_c, and B of each block.
var<workgroup> chunk_most: atomic<i32>;
var<workgroup> chunk_sum: atomic<u32>;
var<workgroup> block_most: array<atomic<i32>, 8>;
/// P of [block][position], and its planes of four positions a word.
var<workgroup> weights: array<u32, 512>;
var<workgroup> high_weights: array<u32, 128>;
var<workgroup> low_weights: array<u32, 128>;
/// Where the words of V of four positions begin.
var<workgroup> value_places: array<u32, 16>;

struct Task {
  /// Of the query and the output: first element of the head.
  start: u32,
  table: i32,
  kv_head: u32,
  /// Positions attended to, both included.
  first: u32,
  last: u32,
}

fn task_of(row: u32, head: u32) -> Task {
  let position = u32(rows[row].y);
  let first = position + 1u - min(position + 1u, params.window);
  let start = (row * params.headCount + head) * params.headSize;
  return Task(start, rows[row].z, head / params.share, first, position);
}

fn signed_byte(word: u32, byte: u32) -> i32 {
  return bitcast<i32>(word << (24u - 8u * byte)) >> 24u;
}

/// Quantizes the query. Barriers: in uniform control flow.
fn load_query(task: Task, lane: u32) {
  var x = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) {
    let element = lane * 4u + i;
    if (element < params.headSize) {
      x[i] = query[task.start + element];
    }
  }
  let exponent = exponent_of_block(x, lane);
  let words = q15_words(x, exponent);
  query_words[lane] = words.x;
  query_words[lane + 64u] = words.y;
  if (lane % 8u == 0u) {
    query_exponents[lane / 8u] = exponent;
  }
  workgroupBarrier();
  if (lane < 32u) {
    let i = lane * 4u;
    query_planes[lane] = vec4<u32>(query_words[i], query_words[i + 1u], query_words[i + 2u], query_words[i + 3u]);
  }
  workgroupBarrier();
}

fn dot16(a: vec4<u32>, b: vec4<u32>) -> i32 {
  return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}

/// q·k of a position whose K lies at `place`, its exponents at `exponents`: blocks ascending, high before mixed products.
fn score(place: u32, exponents: u32) -> f32 {
  let high_place = place / 4u;
  let low_place = (place + plane_words()) / 4u;
  var sum = 0.0;
  for (var block = 0u; block < params.headWords / 8u; block++) {
    var high = 0;
    var mixed = 0;
    for (var i = 2u * block; i < 2u * block + 2u; i++) {
      let key_high = keys[high_place + i];
      high += dot16(query_planes[i], key_high);
      mixed += dot16(query_planes[i], keys[low_place + i]) + dot16(query_planes[i + 16u], key_high);
    }
    let word = exponents + block / 4u;
    let exponent = query_exponents[block] + signed_byte(keys[word / 4u][word % 4u], block % 4u);
    sum = fence(sum + f32(high) * pow2(exponent));
    sum = fence(sum + f32(mixed) * pow2(exponent - 7));
  }
  return sum;
}

/// Step 1 to 3 of a chunk up to P: fills `chunk_sum`, `block_most`, the planes of P and `value_places`, and returns M_c. Barriers:
/// in uniform control flow.
fn weigh_chunk(task: Task, chunk: u32, lane: u32) -> i32 {
  let block_count = params.headWords / 8u;
  workgroupBarrier();
  if (lane == 0u) {
    atomicStore(&chunk_most, LOWEST);
    atomicStore(&chunk_sum, 0u);
  }
  if (lane < 8u) {
    atomicStore(&block_most[lane], LOWEST);
  }
  workgroupBarrier();
  let position = chunk * 64u + lane;
  let is_seen = task.first <= position && position <= task.last;
  var integer = 0;
  var power = 0u;
  var exponents = vec2<u32>(0u);
  // Words of V have four positions, some of which may lie outside.
  let is_near = (task.first & ~3u) <= position && position <= task.last;
  if (is_near) {
    let start = head_block(task.table, position, task.kv_head);
    let offset = position % params.blockSize;
    if (lane % 4u == 0u) {
      value_places[lane / 4u] = start + offset * params.headWords;
    }
    if (is_seen) {
      let exponent_place = start + 2u * plane_words() + offset * params.exponentWords;
      let t = truncate_q16(score(start + offset * params.headWords, exponent_place) * params.scale);
      integer = t >> 16u;
      power = exp2q(bitcast<u32>(t) & 0xffffu) >> 2u;
      exponents = vec2<u32>(values[exponent_place], values[exponent_place + params.exponentWords - 1u]);
      atomicMax(&chunk_most, integer);
      for (var block = 0u; block < block_count; block++) {
        atomicMax(&block_most[block], integer + signed_byte(exponents[block / 4u], block % 4u));
      }
    }
  }
  workgroupBarrier();
  let most = atomicLoad(&chunk_most);
  if (is_seen) {
    atomicAdd(&chunk_sum, rshift(power, most - integer));
  }
  for (var block = 0u; block < block_count; block++) {
    let shift = atomicLoad(&block_most[block]) - integer - signed_byte(exponents[block / 4u], block % 4u);
    weights[block * 64u + lane] = select(0u, rshift(power, max(shift, 0)), is_seen);
  }
  workgroupBarrier();
  for (var i = lane; i < block_count * 16u; i += 64u) {
    let four = vec4<u32>(weights[4u * i], weights[4u * i + 1u], weights[4u * i + 2u], weights[4u * i + 3u]);
    high_weights[i] = pack4(bitcast<vec4<i32>>(four >> vec4<u32>(7u)));
    low_weights[i] = pack4(bitcast<vec4<i32>>(four & vec4<u32>(127u)));
  }
  workgroupBarrier();
  return most;
}

/// o_c of one element, of the chunk that was weighed last.
fn chunk_value(task: Task, chunk: u32, most: i32, element: u32) -> f32 {
  let block = element / 32u;
  let begin = (max(task.first, chunk * 64u) - chunk * 64u) / 4u;
  let end = (min(task.last, chunk * 64u + 63u) - chunk * 64u) / 4u + 1u;
  var high = 0;
  var mixed = 0;
  for (var four = begin; four < end; four++) {
    let place = value_places[four] + element;
    let high_weight = high_weights[block * 16u + four];
    let value_high = values[place];
    high += dot4(high_weight, value_high);
    mixed += dot4(high_weight, values[place + plane_words()]) + dot4(low_weights[block * 16u + four], value_high);
  }
  return itof(128 * high + mixed) * pow2(atomicLoad(&block_most[block]) - most);
}
