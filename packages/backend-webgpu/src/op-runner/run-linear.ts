import { assert, type OpCase, StetError } from '@stet/backend';
import { type LinearOperands, linearCalls, linearVariants } from '../kernels/linear.js';
import { prepareQ15 } from '../kernels/prepare-q15.js';
import { q15PlaneBytes, q15ScaleBytes } from '../program/device-model.js';
import type { KernelCall } from '../program/kernel-call.js';
import { type UploadOptions, uploadWeight } from '../weights/upload-weight.js';
import type { OpScratch } from './op-scratch.js';

/**
 * Runs the linear by each of its variants, so that golden vectors, which are small, hold all of them. Rejects with
 * `STET_ERR_CANONICAL_REFUSED` where two have different bits.
 */
export async function runLinear(
  scratch: OpScratch,
  input: OpCase & { kind: 'linear' },
  options: UploadOptions = {},
): Promise<Float32Array> {
  const { rows, columns, format } = input;
  const rowCount = input.input.length / columns;
  const { operands, prepare } = uploadOperands(scratch, input, rowCount, options);
  const outputs: Float32Array[] = [];
  for (const variant of linearVariants) {
    const calls = [...prepare, ...linearCalls(operands, variant)];
    outputs.push(await scratch.run(calls, { rowCount }, operands.output, rowCount * rows));
  }
  const [first, ...others] = outputs;
  others.forEach((output, i) => {
    const at = firstDifference(first!, output);
    if (at === undefined) return;
    const values = `value ${at} is ${first![at]} by ${linearVariants[0]}, ${output[at]} by ${linearVariants[i + 1]}`;
    throw new StetError('STET_ERR_CANONICAL_REFUSED', `linear ${format} differs between its variants: ${values}`);
  });
  return first!;
}

function uploadOperands(
  scratch: OpScratch,
  { format, rows, columns, weight: data, bias, input: inputData }: OpCase & { kind: 'linear' },
  rowCount: number,
  options: UploadOptions,
): { operands: LinearOperands; prepare: KernelCall[] } {
  const spec = { kind: 'matrix', name: 'weight', rows, columns, format } as const;
  const weight = uploadWeight(scratch.gpu, scratch.memory, spec, data, options);
  assert(weight.kind === 'matrix', 'a matrix is uploaded as one');
  const input = scratch.upload(inputData);
  const operands = { weight, output: scratch.empty(rowCount * rows * 4), ...(bias && { bias: scratch.upload(bias) }) };
  if (format === 'bf16') return { operands: { ...operands, input }, prepare: [] };
  const prepared = {
    planes: scratch.empty(rowCount * q15PlaneBytes(columns)),
    scales: scratch.empty(rowCount * q15ScaleBytes(columns)),
  };
  const prepare = [prepareQ15({ input, output: prepared, width: columns })];
  return { operands: { ...operands, input: prepared }, prepare };
}

function firstDifference(a: Float32Array, b: Float32Array): number | undefined {
  const left = new Uint32Array(a.buffer, a.byteOffset, a.length);
  const right = new Uint32Array(b.buffer, b.byteOffset, b.length);
  const at = left.findIndex((bits, i) => bits !== right[i]);
  return at < 0 ? undefined : at;
}
