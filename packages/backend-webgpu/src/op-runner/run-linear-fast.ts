import { assert, type OpCase } from '@stet/backend';
import { FastLinears } from '../kernels/linear-fast.js';
import { type UploadOptions, uploadWeight } from '../weights/upload-weight.js';
import type { OpScratch } from './op-scratch.js';

export async function runLinearFast(
  scratch: OpScratch,
  { format, rows, columns, weight: data, bias: biasData, input: inputData }: OpCase & { kind: 'linear' },
  options: UploadOptions = {},
): Promise<Float32Array> {
  const spec = { kind: 'matrix', name: 'weight', rows, columns, format } as const;
  const weight = uploadWeight(scratch.gpu, scratch.memory, spec, data, options);
  assert(weight.kind === 'matrix', 'a matrix is uploaded as one');
  const rowCount = inputData.length / columns;
  const output = scratch.empty(rowCount * rows * 4);
  const bias = biasData && scratch.upload(biasData);
  const calls = new FastLinears().calls({ weight, input: scratch.upload(inputData), output, ...(bias && { bias }) });
  return scratch.run(calls, { rowCount }, output, rowCount * rows);
}
