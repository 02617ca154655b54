// output = input · Wᵀ + bias for one row or few, W in q8 or q4 (linear_q8.wgsl, linear_q4.wgsl), inputs in Q15 (byte_input.wgsl).
// Accumulates i32 in a block of 32, f32 of exact products across: blocks ascending in segments of 8, segments ascending, then
// the bias. Canonical.
// A workgroup has one row, OUTPUTS outputs (a power of two) and LANES segments at a time: each invocation adds up one segment
// of one output, those of the first lane join the segments in order.

/// [segment][output]
var<workgroup> sums: array<f32, LANES * OUTPUTS>;

@compute @workgroup_size(OUTPUTS * LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let n = group.x * OUTPUTS + (local & (OUTPUTS - 1u));
  let source = min(n, params.outputCount - 1u);
  let lane = local / OUTPUTS;
  let blockCount = (params.columns + 31u) >> 5u;
  let x = row * blockCount;
  var total = 0.0;
  for (var first = 0u; first < blockCount; first += LANES * 8u) {
    let end = min(first + lane * 8u + 8u, blockCount);
    var segment = 0.0;
    for (var block = first + lane * 8u; block < end; block++) {
      segment = add_block(segment, load_weights(block, source), x + block);
    }
    workgroupBarrier();
    sums[local] = segment;
    workgroupBarrier();
    // Segments past the end are +0 and change nothing.
    if (lane == 0u) {
      for (var i = local; i < LANES * OUTPUTS; i += OUTPUTS) {
        total = fence(total + sums[i]);
      }
    }
  }
  if (lane == 0u && n < params.outputCount) {
    let o = params.firstOutput + n;
    output[row * params.stride + o] = with_bias(total, o);
  }
}
