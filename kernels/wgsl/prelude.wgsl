// In front of every kernel: what all of them bind, and the primitives of docs/NUMERICS.md.

struct Batch {
  /// Rows of the batch, and rows whose result is wanted.
  rowCount: u32,
  outputCount: u32,
  /// 0, which no compiler knows.
  zero: u32,
  unused: u32,
}
@group(0) @binding(0) var<uniform> batch: Batch;

/// What a compiler cannot see through: no sum is reassociated or contracted across it.
fn fence(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ batch.zero);
}

/// 2^e, e in -126..127.
fn pow2(e: i32) -> f32 {
  return bitcast<f32>(u32(e + 127) << 23u);
}

/// 12 significant bits: below 2^-50 zero, capped at 2^50.
fn r12(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let magnitude = bits & 0x7fffffffu;
  let rounded = (min(magnitude, 0x58800000u) + 0x800u) & 0xfffff000u;
  return select(bitcast<f32>((bits & 0x80000000u) | rounded), 0.0, magnitude < 0x26800000u);
}

/// 16 significant bits: below 2^-50 zero, capped at 2^30.
fn r16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let magnitude = bits & 0x7fffffffu;
  let rounded = (min(magnitude, 0x4e800000u) + 0x80u) & 0xffffff00u;
  return select(bitcast<f32>((bits & 0x80000000u) | rounded), 0.0, magnitude < 0x26800000u);
}

/// Clears the last bit: an integer operation between a rounded product and what it feeds.
fn b1(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffffffeu);
}

/// (high, low) of x, 12 significant bits each; below 2^-50 zero, capped at 2^50.
fn split(x: f32) -> vec2<f32> {
  let bits = bitcast<u32>(x);
  let sign = bits & 0x80000000u;
  let magnitude = bits & 0x7fffffffu;
  let capped = min(magnitude, 0x58800000u);
  let high = bitcast<f32>(sign | (capped & 0xfffff000u));
  let low = bitcast<f32>(sign | capped) - high;
  return select(vec2<f32>(high, low), vec2<f32>(0.0), magnitude < 0x26800000u);
}

/// 2^(fraction / 65536) in Q15, fraction in 0..65535.
fn exp2q(fraction: u32) -> u32 {
  let a3 = 27394u + ((fraction * 56308u) >> 19u);
  let a2 = 31625u + ((fraction * a3) >> 18u);
  let a1 = 45420u + ((fraction * a2) >> 17u);
  return 32768u + ((fraction * a1 + 65536u) >> 17u);
}

/// T: x clamped to +-2^30 and truncated.
fn truncate_q16(x: f32) -> i32 {
  return i32(clamp(x, -1073741824.0, 1073741824.0));
}

/// floor((2^31 + (d >> 1)) / d), d in 32768..65536. Some drivers divide u32 wrongly, so a float estimates the quotient,
/// which is at most 65536 and so less than 2 off, and exact integers correct it.
fn rounded_quotient(d: u32) -> u32 {
  let n = 0x80000000u + (d >> 1u);
  var quotient = u32(2147483648.0 / f32(d));
  var rest = i32(n - quotient * d);
  for (var step = 0u; step < 3u; step++) {
    if (rest < 0) {
      quotient -= 1u;
      rest += i32(d);
    } else if (rest >= i32(d)) {
      quotient += 1u;
      rest -= i32(d);
    }
  }
  return quotient;
}

/// 1/x of a positive normal x, 16 significant bits.
fn recip16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let exponent = i32(bits >> 23u) - 127;
  let mantissa = (((bits & 0x7fffffu) | 0x800000u) + 0x80u) >> 8u;
  return f32(rounded_quotient(mantissa)) * pow2(-exponent - 16);
}

/// 1/sqrt(x) of a positive normal x, 16 significant bits.
fn rsqrt16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let exponent = i32(bits >> 23u) - 127;
  let odd = exponent & 1;
  let value = ((bits & 0x7fffffu) | 0x800000u) << u32(7 + odd);
  let half = (exponent - 30 - odd) / 2;
  var root = 0u;
  for (var bit = 0x8000u; bit != 0u; bit = bit >> 1u) {
    let candidate = root | bit;
    if (candidate * candidate <= value) {
      root = candidate;
    }
  }
  if (value - root * root > root) {
    root += 1u;
  }
  return f32(rounded_quotient(root)) * pow2(-half - 31);
}

/// The nearest f32 of |a| < 2^27, on devices too whose cast does not promise it.
fn itof(a: i32) -> f32 {
  return fence(f32(a >> 12u) * 4096.0 + f32(a & 4095));
}

/// value >> shift, rounded half up; 0 from a shift of 16 on. shift >= 0.
fn rshift(value: u32, shift: i32) -> u32 {
  let s = u32(min(shift, 16));
  return select((value + ((1u << s) >> 1u)) >> s, 0u, shift >= 16);
}

/// sc: x·2^-shift; 0 from a shift of 64 on, and where the result is below 2^-90.
fn scale_down(x: f32, shift: i32) -> f32 {
  let scaled = x * pow2(-min(shift, 64));
  return select(scaled, 0.0, shift >= 64 || abs(scaled) < 0x1p-90);
}

/// The exponent of a Q15 block whose largest magnitude has these bits.
fn block_exponent(largest: u32) -> i32 {
  return clamp(i32((largest + 0x1ffffu) >> 23u) - 133, -40, 20);
}

/// Q of x in a Q15 block, scale = 2^(7 - exponent): (high, low), in -127..127 and -64..63.
fn q15(x: f32, scale: f32) -> vec2<i32> {
  let quant = i32(round(clamp(x * scale, -16256.0, 16256.0)));
  let high = (quant + 64) >> 7u;
  return vec2<i32>(high, quant - high * 128);
}

/// Four i8 in one word, the first in its lowest byte.
fn pack4(x: vec4<i32>) -> u32 {
  let bytes = bitcast<vec4<u32>>(x) & vec4<u32>(0xffu);
  return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}
