import type { OpCase } from '@stet/backend';
import { addInPlace } from '../kernels/add.js';
import type { OpScratch } from './op-scratch.js';

export async function runAdd(scratch: OpScratch, input: OpCase & { kind: 'add' }): Promise<Float32Array> {
  const { left, right } = input;
  const output = scratch.upload(left);
  const calls = [addInPlace({ right: scratch.upload(right), output, width: left.length })];
  return scratch.run(calls, { rowCount: 1 }, output, left.length);
}
