import { createHash } from 'node:crypto';
import type { WeightFormat } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import type { Addon } from '../addon.js';
import { nativeMatrix } from '../op-runner.js';

/** Raised where weights come to lie otherwise in an image and the samples below do not show it. */
const IMAGE_VERSION = 1;

/** Sizes of the samples: their last tile of outputs, last block and last pair of inputs are not full. */
const ROWS = 35;
const COLUMNS = 1111;

/**
 * What makes packed weights of values: the encoders of the numerics and the packed forms of the kernels, 64 hex digits.
 * It is the hash of samples that went through both, so it changes with either, and kernels that pack alike share it.
 */
export function packingId(addon: Addon, kernels: number, formats: readonly WeightFormat[]): string {
  const hash = createHash('sha256').update(JSON.stringify({ version: IMAGE_VERSION, byteOrder: 'little' }));
  const values = sampleValues();
  for (const format of formats) {
    const data = encodeWeight(
      { kind: 'matrix', name: `sample of ${format}`, rows: ROWS, columns: COLUMNS, format },
      values,
    );
    hash.update(format).update(addon.opPack(kernels, ...nativeMatrix(ROWS, COLUMNS, data, format)));
  }
  return hash.digest('hex');
}

/** Of a linear congruential generator, in blocks of many magnitudes. */
function sampleValues(): Float32Array {
  let state = 1;
  return Float32Array.from({ length: ROWS * COLUMNS }, (_, i) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state / 2 ** 31) * 2 ** -((i >> 5) % 12);
  });
}
