import type { OpCase } from '@stet/backend';
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
  const output = scratch.empty(input.query.length * 4);
  const partials = scratch.empty(partialBytes(heads, queryPositions.length, positionCount));
  const call = { ...heads, query: scratch.upload(input.query), output, kv, partials };
  const calls = schedule === 'fast' ? fastAttentionCalls(call) : attentionCalls(call);
  const batch = { rowCount: queryPositions.length, positions: queryPositions, table };
  return scratch.run(calls, batch, output, input.query.length);
}
