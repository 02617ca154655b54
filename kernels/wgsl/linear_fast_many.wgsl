// A linear for many rows: a tile of 32 rows × 64 outputs (32 of each of two matrices) a workgroup, 32 columns at a time through
// workgroup memory, each weight widened once for the tile. An invocation has 4 rows × 4 outputs in registers. Weights and inputs
// lie there as quads of four columns; neighbouring invocations read neighbouring quads of weights, and the same quads of inputs.

/// Rows of an invocation, eight apart.
const BAND = 4u;
const TILE_ROWS = BAND * 8u;
const TILE_COLUMNS = 64u;
const MATRIX_COLUMNS = TILE_COLUMNS / MATRICES;
const GROUP = 128u;
/// Quads of a block of 32 columns, and how many of them an invocation widens at a time.
const BLOCK_QUADS = 8u;
const PART_QUADS = min(STEP_QUADS, 4u);
const PARTS = BLOCK_QUADS / PART_QUADS;
const BLOCK_STEPS = BLOCK_QUADS / STEP_QUADS;
/// Rows that are loaded at once, a quad an invocation.
const LOAD_ROWS = GROUP / BLOCK_QUADS;
const LOADS = TILE_ROWS / LOAD_ROWS;

/// [quad][row ^ quad], so that neither reads nor writes meet in one bank.
var<workgroup> inputs: array<vec4<f32>, BLOCK_QUADS * TILE_ROWS>;
/// [quad][column]
var<workgroup> weights: array<vec4<f32>, BLOCK_QUADS * TILE_COLUMNS>;

fn add_products(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
  return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let firstOutput = group.x * MATRIX_COLUMNS;
  let firstRow = group.y * TILE_ROWS;
  let blockCount = (params.columns + 31u) / 32u;

  let loadQuad = local % BLOCK_QUADS;
  let loadRow = local / BLOCK_QUADS;
  var rows = array<u32, LOADS>();
  for (var i = 0u; i < LOADS; i++) {
    rows[i] = input_row(firstRow + loadRow + i * LOAD_ROWS);
  }
//#if NORM
  var square = array<f32, LOADS>();
//#endif

  let column = local % 16u;
  let row = local / 16u;
  var sums = array<vec4<f32>, BAND>();
  for (var block = 0u; block < blockCount; block++) {
    let quad = block * BLOCK_QUADS + loadQuad;
    for (var i = 0u; i < LOADS; i++) {
      var x = input_quad(rows[i], quad);
//#if NORM
      square[i] += dot(x, x);
      x *= norm_quad(quad);
//#endif
      inputs[loadQuad * TILE_ROWS + ((loadRow + i * LOAD_ROWS) ^ loadQuad)] = x;
    }
    for (var load = local; load < PARTS * TILE_COLUMNS; load += GROUP) {
      let tileColumn = load % TILE_COLUMNS;
      let firstQuad = load / TILE_COLUMNS * PART_QUADS;
      let n = min(firstOutput + tileColumn % MATRIX_COLUMNS, params.outputs - 1u);
      // A row whose columns end within a block has no further step: what is read again meets inputs of 0.
      let step = min(block * BLOCK_STEPS + firstQuad / STEP_QUADS, params.steps - 1u);
      let loaded = load_step(tileColumn / MATRIX_COLUMNS, step, n);
      for (var q = 0u; q < PART_QUADS; q++) {
        weights[(firstQuad + q) * TILE_COLUMNS + tileColumn] = weight_quad(loaded, (firstQuad + q) % STEP_QUADS);
      }
    }
    workgroupBarrier();
    for (var q = 0u; q < BLOCK_QUADS; q++) {
      let w = q * TILE_COLUMNS + column;
      let w0 = weights[w];
      let w1 = weights[w + 16u];
      let w2 = weights[w + 32u];
      let w3 = weights[w + 48u];
      let start = q * TILE_ROWS + (row ^ q);
      for (var i = 0u; i < BAND; i++) {
        let x = inputs[start + i * 8u];
        let sum = sums[i];
        sums[i] = vec4<f32>(
          add_products(sum.x, x, w0),
          add_products(sum.y, x, w1),
          add_products(sum.z, x, w2),
          add_products(sum.w, x, w3),
        );
      }
    }
    workgroupBarrier();
  }
//#if NORM
  for (var i = 0u; i < LOADS; i++) {
    inputs[(loadRow + i * LOAD_ROWS) * BLOCK_QUADS + loadQuad].x = square[i];
  }
  workgroupBarrier();
//#endif
  for (var i = 0u; i < BAND; i++) {
    let tileRow = row + i * 8u;
    if (firstRow + tileRow >= batch.rowCount) {
      break;
    }
    var sum = sums[i];
//#if NORM
    var total = 0.0;
    for (var q = 0u; q < BLOCK_QUADS; q++) {
      total += inputs[tileRow * BLOCK_QUADS + q].x;
    }
    sum *= inverse_rms(total);
//#endif
    for (var j = 0u; j < 4u / MATRICES; j++) {
      let n = firstOutput + column + j * 16u;
      if (n < params.outputs) {
        finish(firstRow + tileRow, n, sum[j], sum[(j + 2u) & 3u]);
      }
    }
  }
}
