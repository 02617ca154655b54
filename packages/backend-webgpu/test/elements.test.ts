import type { OpCase } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { runOp } from '@stet/reference';
import fc from 'fast-check';
import { describe, it } from 'vitest';
import { add } from '../src/kernels/add.js';
import { rmsNorm } from '../src/kernels/rms-norm.js';
import { swiglu } from '../src/kernels/swiglu.js';
import { OpScratch } from '../src/op-runner/op-scratch.js';
import { runAdd } from '../src/op-runner/run-add.js';
import { runRmsNorm } from '../src/op-runner/run-rms-norm.js';
import { runRope } from '../src/op-runner/run-rope.js';
import { runSwiglu } from '../src/op-runner/run-swiglu.js';
import { withoutGpu } from './support/gpu.js';
import { Random } from './support/random.js';
import { sharedDevice } from './support/shared-device.js';

const width = fc.oneof(fc.constantFrom(1, 63, 64, 65, 127, 128, 129, 576), fc.integer({ min: 1, max: 700 }));
const rowCount = fc.integer({ min: 1, max: 9 });
const seed = fc.integer({ min: 0, max: 2 ** 31 });
/** Ordinary values, or powers of two and neighbours from 2^-40 to 2^40, zeros among them. */
const values = fc.constantFrom('plain', 'wild');
const runs = { numRuns: 25, seed: 20261129 } as const;
/** Software renderers share the processor. */
const TIMEOUT_MS = 120_000;

describe.skipIf(withoutGpu)('elementwise kernels on the device', { timeout: TIMEOUT_MS }, () => {
  const device = sharedDevice();
  const withScratch = async (run: (scratch: OpScratch) => Promise<void>): Promise<void> => {
    const scratch = new OpScratch(device());
    try {
      await run(scratch);
    } finally {
      scratch.free();
    }
  };

  it('rmsNorm has the bits of the reference for any width, groups and rows', async () => {
    const cases = fc.record({ width, groupCount: fc.constantFrom(1, 1, 2, 3, 8), rowCount, seed, values });
    await fc.assert(
      fc.asyncProperty(cases, (c) =>
        withScratch(async (scratch) => {
          const input = normCase(c.width * c.groupCount, c.groupCount, c.rowCount, c.seed, c.values);
          expectEqualBits(await runRmsNorm(scratch, input), runOp(input), JSON.stringify(c));
        }),
      ),
      runs,
    );
  });

  it('rmsNorm has the same bits in place', () =>
    withScratch(async (scratch) => {
      const input = normCase(3 * 96, 3, 5, 11, 'plain');
      const buffer = scratch.upload(input.input);
      const call = rmsNorm({ ...input, input: buffer, weight: scratch.upload(input.weight), output: buffer });
      const output = await scratch.run([call], { rowCount: 5 }, buffer, input.input.length);
      expectEqualBits(output, runOp(input), 'in place');
    }));

  it('rmsNorm gathers the wanted rows', () =>
    withScratch(async (scratch) => {
      const input = normCase(200, 1, 7, 12, 'plain');
      const outputs = Int32Array.of(6, 0, 3);
      const output = scratch.empty(3 * 200 * 4);
      const buffers = { input: scratch.upload(input.input), weight: scratch.upload(input.weight), output };
      const call = rmsNorm({ ...input, ...buffers, inputRow: 'outputs' });
      const got = await scratch.run([call], { rowCount: 3, outputs }, output, 3 * 200);
      const all = runOp(input);
      const wanted = Float32Array.from({ length: 3 * 200 }, (_, i) => {
        return all[outputs[Math.floor(i / 200)]! * 200 + (i % 200)]!;
      });
      expectEqualBits(got, wanted, 'gathered');
    }));

  it('rope has the bits of the reference for any heads and positions', async () => {
    const pairCount = fc.oneof(fc.constantFrom(1, 16, 32, 64), fc.integer({ min: 1, max: 70 }));
    const cases = fc.record({ pairCount, headCount: fc.integer({ min: 1, max: 5 }), rowCount, seed, values });
    await fc.assert(
      fc.asyncProperty(cases, (c) =>
        withScratch(async (scratch) => {
          const random = new Random(c.seed);
          const headSize = 2 * c.pairCount;
          const input: OpCase & { kind: 'rope' } = {
            kind: 'rope',
            headCount: c.headCount,
            headSize,
            rope: {
              inverseFrequencies: Array.from({ length: c.pairCount }, (_, i) => 10000 ** (-i / c.pairCount)),
              attentionFactor: random.pick([1, 1.25]),
            },
            positions: Int32Array.from({ length: c.rowCount }, () => random.between(0, 2000)),
            input: floatsOf(random, c.rowCount * c.headCount * headSize, c.values),
          };
          expectEqualBits(await runRope(scratch, input), runOp(input), JSON.stringify(c));
        }),
      ),
      runs,
    );
  });

  it('swiglu has the bits of the reference for any gate', async () => {
    await fc.assert(
      fc.asyncProperty(fc.record({ width, seed, scale: fc.constantFrom(0.01, 1, 30) }), (c) =>
        withScratch(async (scratch) => {
          const random = new Random(c.seed);
          const [gate, up] = [random.floats(c.width, c.scale), random.floats(c.width, 1)];
          const input = { kind: 'swiglu', gate, up } as const;
          expectEqualBits(await runSwiglu(scratch, input), runOp(input), JSON.stringify(c));
        }),
      ),
      runs,
    );
  });

  it('add has the bits of the reference for any values', async () => {
    await fc.assert(
      fc.asyncProperty(fc.record({ width, seed, values }), (c) =>
        withScratch(async (scratch) => {
          const random = new Random(c.seed);
          const [left, right] = [floatsOf(random, c.width, c.values), floatsOf(random, c.width, c.values)];
          const input = { kind: 'add', left, right } as const;
          expectEqualBits(await runAdd(scratch, input), runOp(input), JSON.stringify(c));
        }),
      ),
      runs,
    );
  });

  it('add and swiglu take any of their buffers as one', () =>
    withScratch(async (scratch) => {
      const random = new Random(13);
      const size = 130;
      const x = random.floats(size, 2);
      const y = random.floats(size, 2);
      for (const [first, second, third] of [
        [0, 1, 0],
        [0, 1, 1],
        [0, 0, 1],
        [0, 0, 0],
      ] as const) {
        const buffers = [scratch.upload(x), scratch.upload(y)];
        const [left, right] = [first === 0 ? x : y, second === 0 ? x : y];
        const output = buffers[third]!;
        const sum = add({ left: buffers[first]!, right: buffers[second]!, output, width: size });
        const got = await scratch.run([sum], { rowCount: 1 }, output, size);
        expectEqualBits(got, runOp({ kind: 'add', left, right }), `add ${first} ${second} ${third}`);

        const fresh = [scratch.upload(x), scratch.upload(y)];
        const product = swiglu({ gate: fresh[first]!, up: fresh[second]!, output: fresh[third]!, width: size });
        const gated = await scratch.run([product], { rowCount: 1 }, fresh[third]!, size);
        expectEqualBits(gated, runOp({ kind: 'swiglu', gate: left, up: right }), `swiglu ${first} ${second} ${third}`);
      }
    }));

  it('add reaches elements past what one dimension of a dispatch has', () =>
    withScratch(async (scratch) => {
      const size = 65535 * 64 + 65;
      const left = new Float32Array(size).map((_, i) => i % 1021);
      const right = new Float32Array(size).map((_, i) => (i % 509) / 8);
      const got = await runAdd(scratch, { kind: 'add', left, right });
      expectEqualBits(
        got,
        left.map((value, i) => value + right[i]!),
        'many elements',
      );
    }));
});

function normCase(
  size: number,
  groupCount: number,
  rows: number,
  from: number,
  kind: string,
): OpCase & { kind: 'rmsNorm' } {
  const random = new Random(from);
  const weight = random.floats(size / groupCount, 1);
  return {
    kind: 'rmsNorm',
    width: size,
    epsilon: 1e-5,
    groupCount,
    weight,
    input: floatsOf(random, rows * size, kind),
  };
}

function floatsOf(random: Random, count: number, kind: string): Float32Array {
  return kind === 'wild' ? random.wildFloats(count, -40, 40) : random.floats(count, 1);
}
