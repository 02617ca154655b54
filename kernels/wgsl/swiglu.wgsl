// output = silu(gate) · up of docs/NUMERICS.md: 2^-|gate|·log2 e by integers, an exact quotient. One element an invocation.
// Canonical. gate_at and up_at read the inputs, or the output where an input is the output's own buffer.

struct Params {
  width: u32,
  /// fl(65536·log2 e)
  scale: f32,
}
@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;

fn sigmoid(gate: f32) -> f32 {
  let exponent = -i32(min(abs(gate) * params.scale, 4194304.0));
  let shift = -(exponent >> 16u);
  let power = exp2q(u32(exponent) & 0xffffu);
  let inverse = rounded_quotient(32768u + select(power >> u32(min(shift, 16)), 0u, shift > 16));
  return select(f32(inverse) * 0x1p-16, f32((power * inverse) >> 8u) * pow2(-23 - shift), gate < 0.0);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x + id.y * (65535u * 64u);
  if (i >= batch.rowCount * params.width) {
    return;
  }
  let gate = gate_at(i);
  output[i] = b1(gate * sigmoid(gate)) * up_at(i);
}
