// A linear for few rows, which takes as long as reading the weights does: each weight is read once for ROWS rows. A workgroup has TILE
// neighbouring outputs (of each matrix); for each of them SLICES invocations share K, step by step in turn, so that neighbours read
// neighbouring 16 bytes. Their partial sums meet in workgroup memory. With subgroups they could not meet sooner: the invocations of
// one output are far apart in a subgroup, because those of neighbouring outputs read neighbouring memory.
// A norm costs one product a weight, whatever ROWS is: y = inverse rms · Σ (w·norm weight)·x, and the squares are summed apart.

const MATRIX_GROUP = u32(TILE * SLICES);
const GROUP = MATRIX_GROUP * MATRICES;
/// Partial sums of squares are folded to so many, then to one.
const FOLD = 16u;

var<workgroup> sums: array<f32, u32(ROWS) * GROUP>;
//#if NORM
var<workgroup> squares: array<f32, u32(ROWS) * GROUP>;
//#endif

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let matrix = local / MATRIX_GROUP;
  let slice = (local % MATRIX_GROUP) / TILE;
  let firstOutput = group.x * TILE;
  let n = min(firstOutput + local % TILE, params.outputs - 1u);
  let firstRow = group.y * ROWS;
  var rows = array<u32, ROWS>();
  for (var r = 0u; r < ROWS; r++) {
    rows[r] = input_row(firstRow + r);
  }
//#if NORM
  for (var r = 0u; r < ROWS; r++) {
    var square = 0.0;
    for (var quad = local; quad < quad_count(); quad += GROUP) {
      let x = input_quad(rows[r], quad);
      square += dot(x, x);
    }
    squares[r * GROUP + local] = square;
  }
//#endif
  var sum = array<f32, ROWS>();
  for (var step = slice; step < params.steps; step += SLICES) {
    let weights = load_step(matrix, step, n);
    for (var q = 0u; q < STEP_QUADS; q++) {
      let quad = step * STEP_QUADS + q;
      var weight = weight_quad(weights, q);
//#if NORM
      weight *= norm_quad(quad);
//#endif
      for (var r = 0u; r < ROWS; r++) {
        sum[r] += dot(weight, input_quad(rows[r], quad));
      }
    }
  }
  for (var r = 0u; r < ROWS; r++) {
    sums[r * GROUP + local] = sum[r];
  }
  workgroupBarrier();
//#if NORM
  // Only this invocation reads what it overwrites.
  for (var i = local; i < ROWS * FOLD; i += GROUP) {
    let start = i / FOLD * GROUP;
    var square = 0.0;
    for (var other = i % FOLD; other < GROUP; other += FOLD) {
      square += squares[start + other];
    }
    squares[start + i % FOLD] = square;
  }
  workgroupBarrier();
//#endif
  for (var i = local; i < ROWS * TILE; i += GROUP) {
    let r = i / TILE;
    let column = i % TILE;
    if (firstRow + r >= batch.rowCount || firstOutput + column >= params.outputs) {
      continue;
    }
    var result = vec2<f32>();
    for (var m = 0u; m < MATRICES; m++) {
      for (var s = 0u; s < SLICES; s++) {
        result[m] += sums[r * GROUP + m * MATRIX_GROUP + s * TILE + column];
      }
    }
//#if NORM
    var square = 0.0;
    for (var lane = 0u; lane < FOLD; lane++) {
      square += squares[r * GROUP + lane];
    }
    result *= inverse_rms(square);
//#endif
    finish(firstRow + r, firstOutput + column, result.x, result.y);
  }
}
