import type { OpCase } from '@stet/backend';
import { ropeTables } from '@stet/backend/numerics';
import { rope } from '../kernels/rope.js';
import type { OpScratch } from './op-scratch.js';

export async function runRope(scratch: OpScratch, input: OpCase & { kind: 'rope' }): Promise<Float32Array> {
  const { headCount, headSize, positions } = input;
  const { cosine, sine } = ropeTables(input.rope, Math.max(...positions) + 1);
  const turns = new Float32Array(2 * cosine.length);
  for (let i = 0; i < cosine.length; i++) turns.set([cosine[i]!, sine[i]!], 2 * i);
  const buffer = scratch.upload(input.input);
  const calls = [rope({ buffer, turns: scratch.upload(turns), headCount, headSize })];
  return scratch.run(calls, { rowCount: positions.length, positions }, buffer, input.input.length);
}
