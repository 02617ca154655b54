// In front of canonical linears, whatever the format.

struct Params {
  /// Outputs of the part of W that is bound.
  outputCount: u32,
  columns: u32,
  /// Outputs of W, and where the part's begin among them.
  stride: u32,
  firstOutput: u32,
  hasBias: u32,
}
@group(0) @binding(1) var<uniform> params: Params;

fn fence4(x: vec4<f32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) ^ vec4<u32>(batch.zero));
}

/// With the bias, which comes last.
fn with_bias(total: f32, o: u32) -> f32 {
  if (params.hasBias == 1u) {
    return total + bias[o];
  }
  return total;
}
