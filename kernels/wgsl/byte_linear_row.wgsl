// output = input · Wᵀ + bias for one row or few, W in q8 or q4 (linear_q8.wgsl, linear_q4.wgsl), inputs in Q15 (byte_input.wgsl).
// Accumulates i32 in a block of 32, f32 of exact products across: blocks ascending in segments of 8, segments ascending, then
// the bias. Canonical.
// A workgroup has 32 outputs and eight segments at a time: each invocation adds up one segment of one output, the first
// 32 join the segments in order. One row a workgroup.

/// [segment][output]
var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.y + group.z * 65535u;
  if (row >= batch.rowCount) {
    return;
  }
  let n = group.x * 32u + (local & 31u);
  let source = min(n, params.outputCount - 1u);
  let lane = local >> 5u;
  let blockCount = (params.columns + 31u) >> 5u;
  let x = row * blockCount;
  var total = 0.0;
  for (var first = 0u; first < blockCount; first += 64u) {
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
      for (var i = local; i < 256u; i += 32u) {
        total = fence(total + sums[i]);
      }
    }
  }
  if (lane == 0u && n < params.outputCount) {
    let o = params.firstOutput + n;
    if (params.hasBias == 1u) {
      total = total + bias[o];
    }
    output[row * params.stride + o] = total;
  }
}
