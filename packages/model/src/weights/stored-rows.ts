import { assert, StetError, type WeightSpec } from '@stet/backend';
import type { StoredTensor, TensorRows, WeightPlaces } from './stored-tensor.js';

/** The rows of a checkpoint's tensor that a weight is made of, checked. A vector has rows of one element. */
export interface StoredRows {
  readonly tensor: StoredTensor;
  /** Row of the tensor that is the first of the weight. */
  readonly firstRow: number;
  readonly rowBytes: number;
  /** Present where rows have another order than in the plan, in groups of so many. */
  readonly pairedHeadSize?: number;
  readonly decode: (bytes: Uint8Array, target: Float32Array) => void;
}

/** Every weight is a whole tensor of its own name. */
export const ownPlaces: WeightPlaces = (weight) => ({ tensor: weight });

/**
 * Finds the rows of a weight and checks shape and type. Throws `STET_ERR_MISSING_TENSOR` or `STET_ERR_BAD_TENSOR`,
 * which name file and tensor.
 */
export function storedRows(
  spec: WeightSpec,
  tensors: ReadonlyMap<string, StoredTensor>,
  places: WeightPlaces,
): StoredRows {
  const place = places(spec.name);
  const tensor = tensors.get(place.tensor);
  if (!tensor) throw new StetError('STET_ERR_MISSING_TENSOR', `the checkpoint has no tensor ${place.tensor}`);
  checkShape(spec, place, tensor);
  const { name: type, blockValues, blockBytes, decode } = tensor.type;
  if (!decode) bad(tensor, `has the type ${type}, which is not supported`);
  // A vector is one row of the file, so that a block type may hold several of its elements.
  const columns = spec.kind === 'matrix' ? spec.columns : tensor.shape[0]!;
  if (columns % blockValues !== 0) {
    bad(tensor, `has rows of ${columns} values, which are no whole blocks of ${type} (${blockValues} values)`);
  }
  return {
    tensor,
    firstRow: place.slice?.firstRow ?? 0,
    rowBytes: (columns / blockValues) * blockBytes,
    ...(place.headRows && { pairedHeadSize: checkedHeadSize(spec, place.headRows.headSize) }),
    decode,
  };
}

function checkShape(spec: WeightSpec, { slice }: TensorRows, tensor: StoredTensor): void {
  const rows = spec.kind === 'matrix' ? spec.rows : spec.size;
  if (slice) assert(slice.firstRow + rows <= slice.tensorRows, `${spec.name} is a slice past the end`);
  const tensorRows = slice?.tensorRows ?? rows;
  const shape = spec.kind === 'matrix' ? [tensorRows, spec.columns] : [tensorRows];
  if (shape.length !== tensor.shape.length || !shape.every((size, i) => size === tensor.shape[i])) {
    bad(tensor, `has the shape [${tensor.shape.join(', ')}], expected [${shape.join(', ')}]`);
  }
}

function checkedHeadSize(spec: WeightSpec, headSize: number): number {
  const rows = spec.kind === 'matrix' ? spec.rows : spec.size;
  assert(headSize % 2 === 0 && rows % headSize === 0, `${spec.name} has ${rows} rows, no whole heads of ${headSize}`);
  return headSize;
}

function bad(tensor: StoredTensor, message: string): never {
  throw new StetError('STET_ERR_BAD_TENSOR', `${tensor.file}: ${tensor.name} ${message}`);
}
