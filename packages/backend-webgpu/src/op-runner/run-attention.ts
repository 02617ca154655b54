import { type OpCase, StetError } from '@stet/backend';
import { attentionCalls } from '../kernels/attention.js';
import { fastAttentionCalls } from '../kernels/attention-fast.js';
import { partialBytes } from '../kernels/attention-shape.js';
import { kvWrite } from '../kernels/kv-write.js';
import { kvLayout } from '../kv/kv-layout.js';
import type { OpScratch } from './op-scratch.js';

export async function runAttention(
  scratch: OpScratch,
  input: OpCase & { kind: 'attention' },
  schedule: 'fast' | 'canonical',
): Promise<Float32Array> {
  const { headCount, headSize, blockSize, windowSize, queryPositions } = input;
  const positionCount = input.key.length / (input.kvHeadCount * headSize);
  const blockCount = Math.ceil(positionCount / blockSize);
  const layout = kvLayout(input, blockSize, blockCount + 1);
  // Descending ids from the end of the pool, so that positions and slots are never the same thing.
  const table = Int32Array.from({ length: blockCount }, (_, i) => blockCount - i);
  const kv = { keys: scratch.empty(layout.layerBytes), values: scratch.empty(layout.layerBytes) };
  const write = kvWrite({ key: scratch.upload(input.key), value: scratch.upload(input.value), kv, layout });
  const positions = Int32Array.from({ length: positionCount }, (_, p) => p);
  await scratch.run([write], { rowCount: positionCount, positions, table }, kv.keys, 1);

  const heads = { headCount, layout, windowSize };
  const rowCount = queryPositions.length;
  const query = scratch.upload(input.query);
  const run = (partials: GPUBuffer): Promise<Float32Array> => {
    const call = { ...heads, query, output: scratch.empty(input.query.length * 4), kv, partials };
    const calls = schedule === 'fast' ? fastAttentionCalls(call) : attentionCalls(call);
    const batch = { rowCount, positions: queryPositions, table };
    return scratch.run(calls, batch, call.output, input.query.length);
  };
  const output = await run(scratch.empty(partialBytes(heads, rowCount, positionCount)));
  if (schedule === 'canonical') checkSameBits(output, await run(scratch.empty(0)));
  return output;
}

/** A vector proves both ways to go through the chunks. */
function checkSameBits(sideBySide: Float32Array, inTurn: Float32Array): void {
  const bits = new Uint32Array(inTurn.buffer, inTurn.byteOffset, inTurn.length);
  const other = new Uint32Array(sideBySide.buffer, sideBySide.byteOffset, sideBySide.length);
  const at = bits.findIndex((word, i) => word !== other[i]);
  if (at < 0) return;
  const values = `${sideBySide[at]} and ${inTurn[at]}`;
  throw new StetError(
    'STET_ERR_CANONICAL_REFUSED',
    `attention gives ${values} at ${at} for chunks side by side and one after the other`,
  );
}
