import { isStetError, StetError, type WeightSource, type WeightSpec } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import type { FileSource } from '../files/source.js';
import { matrixValues, readMatrix, Scratch, unpairedRow } from './read-matrix.js';
import { ownPlaces, type StoredRows, storedRows } from './stored-rows.js';
import type { StoredTensor, WeightPlaces } from './stored-tensor.js';

/**
 * Weights from the tensors of a checkpoint, decoded and then rounded as the numerics say; BF16 goes to the `bf16`
 * format as it is. `places` says where each weight lies, by default in a tensor of its own name. Reads reject with
 * `STET_ERR_MISSING_TENSOR`, `STET_ERR_BAD_TENSOR` or `STET_ERR_BAD_WEIGHTS` and name tensor and file.
 */
export function tensorWeights(
  source: FileSource,
  tensors: ReadonlyMap<string, StoredTensor>,
  places: WeightPlaces = ownPlaces,
): WeightSource {
  const scratch = new Scratch();
  return {
    read: async (spec) => {
      const stored = storedRows(spec, tensors, places);
      try {
        return spec.kind === 'matrix'
          ? await readMatrix(source, stored, spec, scratch)
          : encodeWeight(spec, await vectorValues(source, stored, spec));
      } catch (cause) {
        if (!isStetError(cause) || cause.code !== 'STET_ERR_BAD_WEIGHTS') throw cause;
        const { file, name } = stored.tensor;
        const where = name === spec.name ? file : `${file}: ${name}`;
        throw new StetError(cause.code, `${where}: ${cause.message}`, { cause });
      }
    },
  };
}

/**
 * The values of a weight as the files have them, before the numerics round them, row-major: what accuracy is measured
 * against. Rejects like the reads of {@link tensorWeights}.
 */
export async function exactValues(
  source: FileSource,
  tensors: ReadonlyMap<string, StoredTensor>,
  places: WeightPlaces,
  spec: WeightSpec,
): Promise<Float32Array> {
  const stored = storedRows(spec, tensors, places);
  return spec.kind === 'matrix' ? matrixValues(source, stored, spec) : vectorValues(source, stored, spec);
}

/** A vector is small: it is read as a whole, also where several share a tensor. */
async function vectorValues(
  source: FileSource,
  { tensor, firstRow, pairedHeadSize, decode }: StoredRows,
  spec: WeightSpec & { kind: 'vector' },
): Promise<Float32Array> {
  const all = new Float32Array(tensor.shape[0]!);
  decode(await source.read(tensor.file, tensor.start, tensor.end), all);
  const stored = all.subarray(firstRow, firstRow + spec.size);
  const values = new Float32Array(spec.size);
  stored.forEach((value, row) => {
    values[pairedHeadSize === undefined ? row : unpairedRow(row, pairedHeadSize)] = value;
  });
  return values;
}
