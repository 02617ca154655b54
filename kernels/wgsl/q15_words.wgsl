// Q15 blocks of 32 by workgroups of 64: eight neighbouring invocations have a block, each four elements of it.

var<workgroup> largest: array<u32, 64>;

/// The exponent of the block that holds the four elements x of every invocation. A barrier: in uniform control flow.
fn exponent_of_block(x: vec4<f32>, lane: u32) -> i32 {
  let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
  largest[lane] = max(max(bits.x, bits.y), max(bits.z, bits.w));
  workgroupBarrier();
  var most = 0u;
  for (var i = 0u; i < 8u; i++) {
    most = max(most, largest[(lane & 56u) + i]);
  }
  return block_exponent(most);
}

/// The words of four elements in the high and the low plane.
fn q15_words(x: vec4<f32>, exponent: i32) -> vec2<u32> {
  let scale = pow2(7 - exponent);
  let first = q15(x.x, scale);
  let second = q15(x.y, scale);
  let third = q15(x.z, scale);
  let fourth = q15(x.w, scale);
  return vec2<u32>(
    pack4(vec4<i32>(first.x, second.x, third.x, fourth.x)),
    pack4(vec4<i32>(first.y, second.y, third.y, fourth.y)),
  );
}
