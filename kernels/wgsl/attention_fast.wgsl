// Fast attention, one workgroup of 64 for some query heads that share a K/V head, of some neighbouring rows: QUERIES in all.
// f32 online softmax in powers of two over chunks of 64 positions. An invocation widens K of one position and scores it for all
// queries, then widens V and sums its elements for all queries; in between 64 / QUERIES invocations weigh a query's scores.
// Queries are f32. Workgroups of different z share the context of the same rows, and attention_fast_joined.wgsl joins them.
// Constants: QUERIES (1, 2, 4, 8 or 16), ELEMENTS of V that an invocation sums, so that heads have up to 64·ELEMENTS.

struct Params {
  kvHeadCount: u32,
  headSize: u32,
  /// Of four elements, padded: a multiple of 8.
  headWords: u32,
  /// Positions of a block.
  blockSize: u32,
  exponentWords: u32,
  headBlockWords: u32,
  /// Query heads, those that share one K/V head; those of a workgroup, 2^tileShift, and the groups of them that share a K/V head.
  headCount: u32,
  share: u32,
  tileShift: u32,
  groupCount: u32,
  /// Positions that a row attends to at most.
  window: u32,
  /// log2 e / sqrt(head size)
  scale: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(3) var<storage, read> tables: array<i32>;
@group(0) @binding(4) var<storage, read> query: array<f32>;
@group(0) @binding(5) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> values: array<u32>;

@group(0) @binding(7) var<storage, read_write> output: array<f32>;
/// [z][row][head][headSize + 2]: the maximum, the sum of weights, and of weighted V, not divided. A sum of 0 where z saw nothing.
@group(0) @binding(8) var<storage, read_write> partials: array<f32>;

const QUERY_COUNT = u32(QUERIES);
const ELEMENT_COUNT = u32(ELEMENTS);
/// Invocations that weigh a query, and those of them that have anything to weigh.
const PARTS = u32(64 / QUERIES);
const BUSY_PARTS = u32(min(16, 64 / QUERIES));
/// Scores of a query, padded against bank conflicts.
const STRIDE = 68u;
/// Less than any score, so that a power of two of the difference is 0.
const LOWEST = -1e30;

var<workgroup> queries: array<vec4<f32>, QUERIES * ELEMENTS * 16>;
var<workgroup> scores: array<f32, QUERIES * 68>;
/// [query][16], of four positions each.
var<workgroup> weights: array<vec4<f32>, QUERIES * 16>;
/// By query: the factor that brings older sums to the new maximum; at the end the maximum.
var<workgroup> factors: array<f32, QUERIES>;
var<workgroup> part_values: array<f32, 64>;
/// [block][position]: 2^(e - 7) of V, 0 where no query looks.
var<workgroup> value_scales: array<f32, ELEMENTS * 128>;
/// Where the words of V of four positions begin.
var<workgroup> value_places: array<u32, 16>;

fn signed_byte(word: u32, byte: u32) -> i32 {
  return bitcast<i32>(word << (24u - 8u * byte)) >> 24u;
}

/// 128·high + low of four Q15 values.
fn widen(high: u32, low: u32) -> vec4<f32> {
  let h = (vec4<u32>(high) << vec4<u32>(24u, 16u, 8u, 0u)) & vec4<u32>(0xff000000u);
  let l = vec4<u32>(low) << vec4<u32>(24u, 16u, 8u, 0u);
  return vec4<f32>((bitcast<vec4<i32>>(h) >> vec4<u32>(17u)) + (bitcast<vec4<i32>>(l) >> vec4<u32>(24u)));
}

fn first_seen(position: u32) -> u32 {
  return position + 1u - min(position + 1u, params.window);
}

/// The positions that the rows of a workgroup that are of one sequence look at; both ends are included.
struct Segment {
  table: i32,
  kv_head: u32,
  first: u32,
  last: u32,
}

/// What one query looks at; last below first for nothing.
struct Range {
  first: u32,
  last: u32,
}

/// K and V of a chunk: scores of the invocation's position for all queries, scales and places of V.
fn score_position(segment: Segment, position: u32, lane: u32) {
  let is_near = (segment.first & ~3u) <= position && position <= segment.last;
  if (!is_near) {
    for (var block = 0u; block < params.headWords / 8u; block++) {
      value_scales[block * 64u + lane] = 0.0;
    }
    return;
  }
  let start = head_block(segment.table, position, segment.kv_head);
  let offset = position % params.blockSize;
  let place = start + offset * params.headWords;
  let exponents = start + 2u * plane_words() + offset * params.exponentWords;
  if (lane % 4u == 0u) {
    value_places[lane / 4u] = place;
  }
  var sums = array<f32, QUERIES>();
  for (var block = 0u; block < params.headWords / 8u; block++) {
    let word = exponents + block / 4u;
    let value_scale = pow2(signed_byte(values[word], block % 4u) - 7);
    value_scales[block * 64u + lane] = select(0.0, value_scale, position >= segment.first);
    let key_scale = pow2(signed_byte(keys[word / 4u][word % 4u], block % 4u) - 7);
    for (var half = 0u; half < 2u; half++) {
      let high = keys[place / 4u + 2u * block + half];
      let low = keys[(place + plane_words()) / 4u + 2u * block + half];
      for (var i = 0u; i < 4u; i++) {
        let key = widen(high[i], low[i]) * key_scale;
        for (var q = 0u; q < QUERY_COUNT; q++) {
          sums[q] += dot(queries[q * params.headWords + 8u * block + 4u * half + i], key);
        }
      }
    }
  }
  for (var q = 0u; q < QUERY_COUNT; q++) {
    scores[q * STRIDE + lane] = sums[q];
  }
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) group_counts: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let kv_head = group.x / params.groupCount;
  let head_mask = (1u << params.tileShift) - 1u;
  let row_count = QUERY_COUNT >> params.tileShift;
  let first_head = (group.x % params.groupCount) << params.tileShift;
  let first_row = group.y * row_count;
  for (var i = lane; i < QUERY_COUNT * params.headWords; i += 64u) {
    let q = i / params.headWords;
    let row = first_row + (q >> params.tileShift);
    let head = first_head + (q & head_mask);
    let element = 4u * (i - q * params.headWords);
    var x = vec4<f32>(0.0);
    if (row < batch.rowCount && head < params.share) {
      let start = (row * params.headCount + kv_head * params.share + head) * params.headSize;
      for (var j = 0u; j < 4u; j++) {
        if (element + j < params.headSize) {
          x[j] = query[start + element + j] * params.scale;
        }
      }
    }
    queries[i] = x;
  }

  // The query that this invocation weighs, and which of its positions.
  let own = lane / PARTS;
  let part = lane % PARTS;
  let own_row = first_row + (own >> params.tileShift);
  let is_own_there = own_row < batch.rowCount && first_head + (own & head_mask) < params.share;
  var most = LOWEST;
  var total = 0.0;
  var sums = array<f32, ELEMENTS * QUERIES>();
  let end_row = min(first_row + row_count, batch.rowCount);
  var row = first_row;
  while (row < end_row) {
    var segment = Segment(rows[row].z, kv_head, first_seen(u32(rows[row].y)), u32(rows[row].y));
    var next = row + 1u;
    while (next < end_row && rows[next].z == segment.table) {
      segment.first = min(segment.first, first_seen(u32(rows[next].y)));
      segment.last = max(segment.last, u32(rows[next].y));
      next += 1u;
    }
    var range = Range(1u, 0u);
    if (is_own_there && row <= own_row && own_row < next) {
      range = Range(first_seen(u32(rows[own_row].y)), u32(rows[own_row].y));
    }
    let first_chunk = segment.first / 64u;
    let chunk_count = segment.last / 64u + 1u - first_chunk;
    let own_count = (chunk_count + group_counts.z - 1u) / group_counts.z;
    let begin_chunk = first_chunk + min(group.z * own_count, chunk_count);
    let end_chunk = first_chunk + min((group.z + 1u) * own_count, chunk_count);
    for (var chunk = begin_chunk; chunk < end_chunk; chunk++) {
      workgroupBarrier();
      score_position(segment, chunk * 64u + lane, lane);
      workgroupBarrier();

      var chunk_most = LOWEST;
      for (var four = part; four < 16u; four += PARTS) {
        for (var i = 0u; i < 4u; i++) {
          let position = chunk * 64u + 4u * four + i;
          let is_seen = range.first <= position && position <= range.last;
          chunk_most = max(chunk_most, select(LOWEST, scores[own * STRIDE + 4u * four + i], is_seen));
        }
      }
      part_values[lane] = chunk_most;
      workgroupBarrier();
      for (var i = 0u; i < BUSY_PARTS; i++) {
        chunk_most = max(chunk_most, part_values[own * PARTS + i]);
      }
      let new_most = max(most, chunk_most);
      let factor = exp2(most - new_most);
      most = new_most;
      total *= factor;
      for (var four = part; four < 16u; four += PARTS) {
        var weight = vec4<f32>(0.0);
        for (var i = 0u; i < 4u; i++) {
          let position = chunk * 64u + 4u * four + i;
          if (range.first <= position && position <= range.last) {
            weight[i] = exp2(scores[own * STRIDE + 4u * four + i] - most);
          }
        }
        weights[own * 16u + four] = weight;
        total += weight.x + weight.y + weight.z + weight.w;
      }
      if (part == 0u) {
        factors[own] = factor;
      }
      workgroupBarrier();

      let begin = (max(segment.first, chunk * 64u) - chunk * 64u) / 4u;
      let end = (min(segment.last, chunk * 64u + 63u) - chunk * 64u) / 4u + 1u;
      for (var e = 0u; e < ELEMENT_COUNT; e++) {
        let element = lane + 64u * e;
        if (element < 4u * params.headWords) {
          for (var q = 0u; q < QUERY_COUNT; q++) {
            sums[e * QUERY_COUNT + q] *= factors[q];
          }
          for (var four = begin; four < end; four++) {
            let place = value_places[four] + element;
            let scale = (element / 32u) * 64u + 4u * four;
            let scales = vec4<f32>(
              value_scales[scale], value_scales[scale + 1u], value_scales[scale + 2u], value_scales[scale + 3u],
            );
            let value = widen(values[place], values[place + plane_words()]) * scales;
            for (var q = 0u; q < QUERY_COUNT; q++) {
              sums[e * QUERY_COUNT + q] += dot(weights[q * 16u + four], value);
            }
          }
        }
      }
    }
    row = next;
  }

  workgroupBarrier();
  part_values[lane] = total;
  if (part == 0u) {
    factors[own] = most;
  }
  workgroupBarrier();
  for (var q = 0u; q < QUERY_COUNT; q++) {
    let q_row = first_row + (q >> params.tileShift);
    let head = first_head + (q & head_mask);
    if (q_row < batch.rowCount && head < params.share) {
      var sum = 0.0;
      for (var i = 0u; i < BUSY_PARTS; i++) {
        sum += part_values[q * PARTS + i];
      }
      let place = q_row * params.headCount + kv_head * params.share + head;
      let partial = (group.z * batch.rowCount * params.headCount + place) * (params.headSize + 2u);
      if (group_counts.z > 1u && lane == 0u) {
        partials[partial] = factors[q];
        partials[partial + 1u] = sum;
      }
      for (var e = 0u; e < ELEMENT_COUNT; e++) {
        let element = lane + 64u * e;
        if (element < params.headSize) {
          let x = sums[e * QUERY_COUNT + q];
          if (group_counts.z > 1u) {
            partials[partial + 2u + element] = x;
          } else {
            output[place * params.headSize + element] = x / sum;
          }
        }
      }
    }
  }
}
