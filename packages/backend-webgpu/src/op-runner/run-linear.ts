import { assert, type OpCase } from '@stet/backend';
import { linearCalls } from '../kernels/linear.js';
import { prepareQ15 } from '../kernels/prepare-q15.js';
import { q15PlaneBytes, q15ScaleBytes } from '../program/device-model.js';
import { type UploadOptions, uploadWeight } from '../weights/upload-weight.js';
import type { OpScratch } from './op-scratch.js';

export async function runLinear(
  scratch: OpScratch,
  { format, rows, columns, weight: data, bias: biasData, input: inputData }: OpCase & { kind: 'linear' },
  options: UploadOptions = {},
): Promise<Float32Array> {
  const spec = { kind: 'matrix', name: 'weight', rows, columns, format } as const;
  const weight = uploadWeight(scratch.gpu, scratch.memory, spec, data, options);
  assert(weight.kind === 'matrix', 'a matrix is uploaded as one');
  const rowCount = inputData.length / columns;
  const output = scratch.empty(rowCount * rows * 4);
  const input = scratch.upload(inputData);
  const bias = biasData && scratch.upload(biasData);
  const operands = { weight, output, ...(bias && { bias }) };
  if (format === 'bf16') {
    return scratch.run(linearCalls({ ...operands, input }), { rowCount }, output, rowCount * rows);
  }
  const prepared = {
    planes: scratch.empty(rowCount * q15PlaneBytes(columns)),
    scales: scratch.empty(rowCount * q15ScaleBytes(columns)),
  };
  const calls = [
    prepareQ15({ input, output: prepared, width: columns }),
    ...linearCalls({ ...operands, input: prepared }),
  ];
  return scratch.run(calls, { rowCount }, output, rowCount * rows);
}
