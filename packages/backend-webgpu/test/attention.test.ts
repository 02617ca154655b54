import { expectEqualBits } from '@stet/backend/conformance';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fastAttentionCalls } from '../src/kernels/attention-fast.js';
import { type AttentionCall, partialBytes, splitChunks } from '../src/kernels/attention-shape.js';
import { kvLayout } from '../src/kv/kv-layout.js';
import { OpScratch } from '../src/op-runner/op-scratch.js';
import { withoutGpu } from './support/gpu.js';
import { PagedAttention, type PagedShape } from './support/paged-attention.js';
import { sharedDevice } from './support/shared-device.js';

const sequence = fc.record({
  positionCount: fc.oneof(fc.constantFrom(1, 16, 63, 64, 65, 128, 129), fc.integer({ min: 1, max: 200 })),
  rowCount: fc.constantFrom(1, 1, 2, 5),
});
const shapes: fc.Arbitrary<PagedShape> = fc.record({
  kvHeadCount: fc.integer({ min: 1, max: 2 }),
  share: fc.integer({ min: 1, max: 4 }),
  headSize: fc.oneof(fc.constantFrom(16, 32, 64, 96, 128, 256), fc.integer({ min: 1, max: 80 })),
  blockSize: fc.constantFrom(16, 32, 48, 64, 128),
  windowSize: fc.oneof(
    fc.constant(undefined),
    fc.constantFrom(1, 2, 63, 64, 65, 4096),
    fc.integer({ min: 1, max: 200 }),
  ),
  sequences: fc
    .array(sequence, { minLength: 1, maxLength: 3 })
    .map((all) => all.map((s) => ({ ...s, rowCount: Math.min(s.rowCount, s.positionCount) }))),
  values: fc.constantFrom('plain', 'plain', 'wild'),
  scale: fc.constantFrom(0.01, 1, 10, 2 ** 14),
  seed: fc.integer({ min: 0, max: 2 ** 31 }),
});

const plain = { kvHeadCount: 1, share: 1, headSize: 64, blockSize: 16, values: 'plain', scale: 0.3, seed: 7 } as const;
/** Every number of queries that a workgroup may have at some head size, one row and several, padded heads, windows. */
const fastShapes: readonly PagedShape[] = [
  {
    ...plain,
    sequences: [
      { positionCount: 300, rowCount: 1 },
      { positionCount: 5, rowCount: 1 },
    ],
  },
  {
    ...plain,
    sequences: [
      { positionCount: 150, rowCount: 20 },
      { positionCount: 70, rowCount: 9 },
    ],
  },
  {
    ...plain,
    windowSize: 70,
    sequences: [
      { positionCount: 300, rowCount: 1 },
      { positionCount: 200, rowCount: 40 },
    ],
  },
  { ...plain, kvHeadCount: 2, share: 3, headSize: 48, sequences: [{ positionCount: 130, rowCount: 1 }] },
  {
    ...plain,
    kvHeadCount: 2,
    share: 3,
    headSize: 48,
    windowSize: 9,
    sequences: [{ positionCount: 100, rowCount: 11 }],
  },
  { ...plain, share: 2, headSize: 128, blockSize: 48, sequences: [{ positionCount: 140, rowCount: 1 }] },
  { ...plain, share: 2, headSize: 100, blockSize: 48, sequences: [{ positionCount: 140, rowCount: 13 }] },
  { ...plain, share: 9, headSize: 256, sequences: [{ positionCount: 70, rowCount: 2 }] },
  { ...plain, share: 17, headSize: 16, sequences: [{ positionCount: 70, rowCount: 2 }] },
];

/** Software renderers share the processor, and take seconds to make a pipeline. */
const TIMEOUT_MS = 300_000;

describe.skipIf(withoutGpu)('attention on the device', { timeout: TIMEOUT_MS }, () => {
  const device = sharedDevice();
  const withScratch = async (run: (scratch: OpScratch) => Promise<void>): Promise<void> => {
    const scratch = new OpScratch(device());
    try {
      await run(scratch);
    } finally {
      scratch.free();
    }
  };

  it('has the bits of the reference over scattered blocks, its chunks side by side or in turn', async () => {
    await fc.assert(
      fc.asyncProperty(shapes, (shape) =>
        withScratch(async (scratch) => {
          const attention = new PagedAttention(shape);
          const expected = attention.expected();
          expectEqualBits(await attention.run(scratch, 'canonical'), expected, `side by side ${JSON.stringify(shape)}`);
          const inTurn = await attention.run(scratch, 'canonical', 'none');
          expectEqualBits(inTurn, expected, `in turn ${JSON.stringify(shape)}`);
        }),
      ),
      { numRuns: 25, seed: 20261129 },
    );
  });

  it.each(fastShapes)('in f32 is as close to the yardstick as f32 can be: $share × $headSize, $sequences', (shape) =>
    withScratch(async (scratch) => {
      const attention = new PagedAttention(shape);
      const { values, tolerances } = attention.expected64();
      for (const room of ['all', 'none'] as const) {
        const got = await attention.run(scratch, 'fast', room);
        expect(got.length).toBe(values.length);
        const worst = got.findIndex((value, i) => !(Math.abs(value - values[i]!) <= tolerances[i]!));
        expect(worst, `value ${worst} is ${got[worst]}, not ${values[worst]}`).toBe(-1);
        console.log(
          Math.max(...got.map((value, i) => Math.abs(value - values[i]!) / tolerances[i]!)),
          Math.max(...tolerances),
          Math.max(...values),
        );
      }
    }),
  );
});

describe('the split of attention', () => {
  const layout = kvLayout({ kvHeadCount: 2, headSize: 64 }, 16, 1);
  const call = (size: number, windowSize?: number): AttentionCall => {
    const buffer = { size } as GPUBuffer;
    const kv = { keys: buffer, values: buffer };
    return { query: buffer, output: buffer, kv, layout, headCount: 8, windowSize, partials: buffer };
  };
  const batch = { outputCount: 1, sequenceCount: 1 };

  it('has a chunk for every 64 positions while rows are few', () => {
    const all = call(partialBytes(call(0), 200, 1000));
    expect(splitChunks(all, { ...batch, rowCount: 1, positionCount: 64 })).toBe(0);
    expect(splitChunks(all, { ...batch, rowCount: 1, positionCount: 65 })).toBe(2);
    expect(splitChunks(all, { ...batch, rowCount: 127, positionCount: 1000 })).toBe(16);
    expect(splitChunks(all, { ...batch, rowCount: 128, positionCount: 1000 })).toBe(0);
  });

  it('has as many chunks as a window may touch', () => {
    for (const [windowSize, chunkCount] of [
      [1, 0],
      [2, 2],
      [65, 2],
      [66, 3],
      [5000, 16],
    ] as const) {
      const windowed = call(partialBytes(call(0, windowSize), 1, 1000), windowSize);
      expect(splitChunks(windowed, { ...batch, rowCount: 1, positionCount: 1000 })).toBe(chunkCount);
    }
  });

  it('is left where there is no room for it', () => {
    expect(splitChunks(call(1000), { ...batch, rowCount: 1, positionCount: 1000 })).toBe(0);
  });

  it('of fast attention never asks for more room than there is', () => {
    for (const room of [0, 8 * 66 * 4, 10 * 8 * 66 * 4]) {
      const joined = fastAttentionCalls(call(room)).at(-1)!;
      const [, , splits] = joined.workgroups({ ...batch, rowCount: 1, positionCount: 100_000 });
      expect(splits * 8 * 66 * 4).toBeLessThanOrEqual(room);
    }
  });
});
