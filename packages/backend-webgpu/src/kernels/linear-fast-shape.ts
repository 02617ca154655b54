/**
 * How the work of a fast linear is laid out: `row` and `few` are linear_fast_few.wgsl for one row and for eight, whose weights are
 * read once for them, `tile` is linear_fast_many.wgsl.
 */
export type RowShape = 'row' | 'few' | 'tile';

export const rowShapes: readonly RowShape[] = ['row', 'few', 'tile'];

/** Rows of a workgroup. */
export const shapeRows: Readonly<Record<RowShape, number>> = { row: 1, few: 8, tile: 32 };
/** Outputs of a workgroup: of each matrix, but in a tile those of two matrices together. */
export const shapeOutputs: Readonly<Record<RowShape, number>> = { row: 8, few: 8, tile: 64 };
/** Invocations of `row` and `few` that share the columns of an output. */
export const COLUMN_SLICES = 16;

/** With fewer tiles most of a GPU would be idle: then rows are taken eight at a time, their weights coming from its caches. */
const LEAST_TILES = 32;
/** From more rows on eight at a time read the weights too often. */
const MOST_FEW_ROWS = 128;

/** The shape for so many rows and outputs of each of one or two matrices. */
export function shapeOf(rowCount: number, outputCount: number, matrices: number): RowShape {
  if (rowCount <= 1) return 'row';
  if (rowCount <= shapeRows.few) return 'few';
  const tiles = Math.ceil((outputCount * matrices) / shapeOutputs.tile) * Math.ceil(rowCount / shapeRows.tile);
  return tiles >= LEAST_TILES || rowCount > MOST_FEW_ROWS ? 'tile' : 'few';
}
