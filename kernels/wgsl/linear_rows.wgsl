// In front of canonical linears for several rows (byte_linear.wgsl, linear_bf16.wgsl): how the invocations of a workgroup write.

/// Four rows of output n from `firstRow` on; what lies past the end of rows or outputs is not written.
fn write_rows(total: vec4<f32>, firstRow: u32, lastRow: u32, n: u32) {
  if (n >= params.outputCount) {
    return;
  }
  let o = params.firstOutput + n;
  for (var i = 0u; i < 4u && firstRow + i <= lastRow; i++) {
    output[(firstRow + i) * params.stride + o] = with_bias(total[i], o);
  }
}

/// All rows of a workgroup: with one lane each invocation has them all, else lane g has rows 4g .. 4g + 3.
fn write_totals(total0: vec4<f32>, total1: vec4<f32>, firstRow: u32, lastRow: u32, n: u32, lane: u32) {
  if (LANES == 1u) {
    write_rows(total0, firstRow, lastRow, n);
    if (GROUPS == 2u) {
      write_rows(total1, firstRow + 4u, lastRow, n);
    }
  } else if (lane < GROUPS) {
    write_rows(total0, firstRow + lane * 4u, lastRow, n);
  }
}
