import type { OpCase } from '@stet/backend';
import { add } from '../kernels/add.js';
import type { OpScratch } from './op-scratch.js';

export async function runAdd(scratch: OpScratch, input: OpCase & { kind: 'add' }): Promise<Float32Array> {
  const width = input.left.length;
  const output = scratch.empty(width * 4);
  const calls = [add({ left: scratch.upload(input.left), right: scratch.upload(input.right), output, width })];
  return scratch.run(calls, { rowCount: 1 }, output, width);
}
