// output = input · Wᵀ + bias for several rows, W in bf16, inputs rounded to 16 bits. Accumulates f32 of exact products:
// k ascending in segments of 256, segments ascending, then the bias. Canonical.
// Constants: a workgroup has 4·GROUPS rows and OUTPUTS outputs (a power of two) and LANES segments at a time; each invocation
// adds up one segment of one output for all rows, and where there are several LANES, lane g joins the segments of rows
// 4g .. 4g + 3 in order. GROUPS is 1 or 2, LANES 1 or 4.

@group(0) @binding(2) var<storage, read> input: array<f32>;
/// [ceil(columns / 8)][output]
@group(0) @binding(3) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

/// Columns of a segment that are in workgroup memory at a time.
const DEPTH = 64u;
/// Rounded inputs, [lane][column][group]: four rows each.
var<workgroup> tile: array<vec4<f32>, LANES * DEPTH * GROUPS>;
/// [lane][group][output]
var<workgroup> sums: array<vec4<f32>, LANES * GROUPS * OUTPUTS>;

/// The inputs of a column in four rows from `row` on; past the end of rows those of the last one, past the end of columns 0.
fn inputs_at(row: u32, lastRow: u32, column: u32) -> vec4<f32> {
  if (column >= params.columns) {
    return vec4<f32>(0.0);
  }
  return vec4<f32>(
    r16(input[min(row, lastRow) * params.columns + column]),
    r16(input[min(row + 1u, lastRow) * params.columns + column]),
    r16(input[min(row + 2u, lastRow) * params.columns + column]),
    r16(input[min(row + 3u, lastRow) * params.columns + column]),
  );
}

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
  var total0 = vec4<f32>(0.0);
  var total1 = vec4<f32>(0.0);
  for (var first = 0u; first < params.columns; first += LANES * 256u) {
    var segment0 = vec4<f32>(0.0);
    var segment1 = vec4<f32>(0.0);
    for (var depth = 0u; depth < 256u && first + depth < params.columns; depth += DEPTH) {
      workgroupBarrier();
      for (var i = local; i < LANES * DEPTH * GROUPS; i += OUTPUTS * LANES) {
        let column = i % DEPTH;
        let rows = (i / DEPTH) & (GROUPS - 1u);
        let segment = i / (DEPTH * GROUPS);
        tile[(segment * DEPTH + column) * GROUPS + rows] =
          inputs_at(firstRow + rows * 4u, lastRow, first + segment * 256u + depth + column);
      }
      workgroupBarrier();
      let start = first + lane * 256u + depth;
      let end = min(start + DEPTH, params.columns);
      for (var column = start; column < end; column += 8u) {
        let octet = data[(column >> 3u) * params.outputCount + source];
        let x = (lane * DEPTH + column - start) * GROUPS;
        for (var i = 0u; i < 8u; i++) {
          let pair = octet[i >> 1u];
          let w = bitcast<f32>(select(pair << 16u, pair & 0xffff0000u, (i & 1u) == 1u));
          segment0 = fence4(segment0 + tile[x + i * GROUPS] * w);
          if (GROUPS == 2u) {
            segment1 = fence4(segment1 + tile[x + i * GROUPS + 1u] * w);
          }
        }
      }
    }
    if (LANES == 1u) {
      total0 = fence4(total0 + segment0);
      total1 = fence4(total1 + segment1);
    } else {
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
