// output = input · Wᵀ + bias for several rows, W in q8 or q4 (linear_q8.wgsl, linear_q4.wgsl), inputs in Q15 (byte_input.wgsl).
// Accumulates i32 in a block of 32, f32 of exact products across: blocks ascending in segments of 8, segments ascending, then
// the bias. Canonical.
// Constants: a workgroup has 4·GROUPS rows and OUTPUTS outputs (a power of two) and LANES segments at a time; each invocation
// adds up one segment of one output for all rows, and where there are several LANES, lane g joins the segments of rows
// 4g .. 4g + 3 in order. GROUPS is 1 or 2, LANES 1 or 4.

/// [lane][group][output]
var<workgroup> sums: array<vec4<f32>, LANES * GROUPS * OUTPUTS>;

@compute @workgroup_size(OUTPUTS * LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let lastRow = batch.rowCount - 1u;
  let firstRow = (group.y + group.z * 65535u) * (4u * GROUPS);
  if (firstRow > lastRow) {
    return;
  }
  let place = local & (OUTPUTS - 1u);
  let lane = local / OUTPUTS;
  let n = group.x * OUTPUTS + place;
  let source = min(n, params.outputCount - 1u);
  let blockCount = (params.columns + 31u) >> 5u;
  // Past the end of rows the last one is read again, and not written.
  let x0 = min(vec4<u32>(firstRow) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(lastRow)) * blockCount;
  let x1 = min(vec4<u32>(firstRow) + vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(lastRow)) * blockCount;
  var total0 = vec4<f32>(0.0);
  var total1 = vec4<f32>(0.0);
  for (var first = 0u; first < blockCount; first += LANES * 8u) {
    let end = min(first + lane * 8u + 8u, blockCount);
    var segment0 = vec4<f32>(0.0);
    var segment1 = vec4<f32>(0.0);
    for (var block = first + lane * 8u; block < end; block++) {
      let weights = load_weights(block, source);
      segment0 = add_block4(segment0, weights, x0 + vec4<u32>(block));
      if (GROUPS == 2u) {
        segment1 = add_block4(segment1, weights, x1 + vec4<u32>(block));
      }
    }
    if (LANES == 1u) {
      total0 = fence4(total0 + segment0);
      total1 = fence4(total1 + segment1);
    } else {
      workgroupBarrier();
      sums[lane * GROUPS * OUTPUTS + place] = segment0;
      if (GROUPS == 2u) {
        sums[(lane * GROUPS + 1u) * OUTPUTS + place] = segment1;
      }
      workgroupBarrier();
      // Segments past the end are +0 and change nothing.
      if (lane < GROUPS) {
        for (var i = 0u; i < LANES; i++) {
          total0 = fence4(total0 + sums[(i * GROUPS + lane) * OUTPUTS + place]);
        }
      }
    }
  }
  write_totals(total0, total1, firstRow, lastRow, n, lane);
}
