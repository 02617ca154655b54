import type { OpCase } from '@stet/backend';
import { rmsNorm } from '../kernels/rms-norm.js';
import type { OpScratch } from './op-scratch.js';

export async function runRmsNorm(scratch: OpScratch, input: OpCase & { kind: 'rmsNorm' }): Promise<Float32Array> {
  const { width, epsilon, groupCount = 1 } = input;
  const count = input.input.length;
  const output = scratch.empty(count * 4);
  const buffers = { input: scratch.upload(input.input), weight: scratch.upload(input.weight), output };
  return scratch.run([rmsNorm({ ...buffers, width, epsilon, groupCount })], { rowCount: count / width }, output, count);
}
