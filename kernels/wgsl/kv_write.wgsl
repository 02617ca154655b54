// Quantizes K and V of every row to Q15 and stores them at the row's position (docs/NUMERICS.md, src/kv/kv-layout.ts). Both schedules.
// A workgroup has eight blocks of 32 elements, of K or of V, and an invocation four elements of one. Words that positions or blocks
// share are written by atomics, each invocation its own bytes.

struct Params {
  kvHeadCount: u32,
  headSize: u32,
  /// Of four elements, padded: a multiple of 8.
  headWords: u32,
  /// Positions of a block.
  blockSize: u32,
  exponentWords: u32,
  headBlockWords: u32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<i32>>;
@group(0) @binding(3) var<storage, read> tables: array<i32>;
@group(0) @binding(4) var<storage, read> key: array<f32>;
@group(0) @binding(5) var<storage, read> value: array<f32>;
@group(0) @binding(6) var<storage, read_write> keys: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> values: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  // Blocks of K of all heads come first, those of V after them.
  let block_count = params.headWords / 8u;
  let item = group.x * 8u + lane / 8u;
  let is_value = item >= params.kvHeadCount * block_count;
  let own = select(item, item - params.kvHeadCount * block_count, is_value);
  let head = own / block_count;
  let block = own - head * block_count;
  let is_there = head < params.kvHeadCount;
  let word = block * 8u + lane % 8u;

  let x = select(vec4<f32>(0.0), four_elements(row, head, word * 4u, is_value), is_there);
  let exponent = exponent_of_block(x, lane);
  if (!is_there) {
    return;
  }
  let words = q15_words(x, exponent);
  let position = u32(rows[row].y);
  let start = head_block(rows[row].z, position, head);
  let offset = position % params.blockSize;
  let exponents = start + 2u * plane_words() + offset * params.exponentWords + block / 4u;
  let is_first = lane % 8u == 0u;
  if (is_value) {
    let place = start + (offset / 4u) * (4u * params.headWords) + word * 4u;
    for (var i = 0u; i < 4u; i++) {
      set_byte_of_value(place + i, offset % 4u, words.x >> (8u * i));
      set_byte_of_value(place + plane_words() + i, offset % 4u, words.y >> (8u * i));
    }
    if (is_first) {
      set_byte_of_value(exponents, block % 4u, u32(exponent));
    }
  } else {
    let place = start + offset * params.headWords + word;
    atomicStore(&keys[place], words.x);
    atomicStore(&keys[place + plane_words()], words.y);
    if (is_first) {
      let shift = 8u * (block % 4u);
      atomicAnd(&keys[exponents], ~(0xffu << shift));
      atomicOr(&keys[exponents], (u32(exponent) & 0xffu) << shift);
    }
  }
}

/// Elements `start_element`.. of a head, 0 past its end.
fn four_elements(row: u32, head: u32, start_element: u32, is_value: bool) -> vec4<f32> {
  let start = (row * params.kvHeadCount + head) * params.headSize;
  var x = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) {
    let element = start_element + i;
    if (element < params.headSize && head < params.kvHeadCount) {
      if (is_value) {
        x[i] = value[start + element];
      } else {
        x[i] = key[start + element];
      }
    }
  }
  return x;
}

/// Writes the lowest byte of `bits`, and leaves the bytes of other positions and blocks, which others may be writing now.
fn set_byte_of_value(word: u32, byte: u32, bits: u32) {
  atomicAnd(&values[word], ~(0xffu << (8u * byte)));
  atomicOr(&values[word], (bits & 0xffu) << (8u * byte));
}
