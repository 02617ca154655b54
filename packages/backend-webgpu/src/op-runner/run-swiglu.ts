import type { OpCase } from '@stet/backend';
import { swiglu } from '../kernels/swiglu.js';
import type { OpScratch } from './op-scratch.js';

export async function runSwiglu(scratch: OpScratch, input: OpCase & { kind: 'swiglu' }): Promise<Float32Array> {
  const width = input.gate.length;
  const output = scratch.empty(width * 4);
  const calls = [swiglu({ gate: scratch.upload(input.gate), up: scratch.upload(input.up), output, width })];
  return scratch.run(calls, { rowCount: 1 }, output, width);
}
