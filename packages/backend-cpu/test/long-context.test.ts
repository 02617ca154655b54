import { type Batch, OUTPUT_LOGITS, type Plan } from '@stet/backend';
import { buildModel, type ConformanceModel, expectEqualBits } from '@stet/backend/conformance';
import { ropeTables } from '@stet/backend/numerics';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import type { Addon, NativeHandle } from '../src/addon.js';
import { createCpuBackend } from '../src/index.js';
import { positionsReached, Ropes } from '../src/ropes.js';
import { withoutAddon } from './support/machine.js';

const contextLength = 131_072;
const blockSize = 64;

describe('rope tables', () => {
  const { plan } = longModel(8);

  it('have the same bits whether made at once or in parts', () => {
    for (const rope of plan.ropes) {
      const whole = ropeTables(rope, 1000);
      const part = ropeTables(rope, 300, 700);
      const pairs = rope.inverseFrequencies.length;
      expectEqualBits(part.cosine, whole.cosine.subarray(700 * pairs), 'cosine');
      expectEqualBits(part.sine, whole.sine.subarray(700 * pairs), 'sine');
    }
  });

  it('are made as far as the steps come, each position once, and leave turns to the event loop', async () => {
    const made = recorder();
    const ropes = new Ropes(made.addon, made.handle, plan);
    expect(ropes.reaches(0)).toBe(true);
    expect(ropes.reaches(1)).toBe(false);
    await ropes.extendTo(1);
    expect(made.positions()).toBe(256);
    let turns = 0;
    const count = (): void => {
      turns++;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    await ropes.extendTo(5000);
    clearImmediate(timer);
    expect(turns).toBeGreaterThan(10);
    await ropes.extendTo(contextLength);
    expect(ropes.reaches(contextLength)).toBe(true);
    const { cosine, sine } = ropeTables(plan.ropes[0], contextLength);
    expectEqualBits(made.cosine(), cosine, 'cosine');
    expectEqualBits(made.sine(), sine, 'sine');
  });

  it('are needed up to the highest position of a step', () => {
    expect(positionsReached({ fast: oneRow(7), canonical: oneRow(3) })).toBe(8);
    expect(positionsReached({ canonical: oneRow(300) })).toBe(301);
  });
});

if (withoutAddon !== undefined) it.skip(`long contexts are not tested here (${withoutAddon})`, () => {});

describe.skipIf(withoutAddon)('a model of a long context', () => {
  it('has the bits of the reference at its last position', async () => {
    const load = { ...longModel(8), blockSize, blockCount: 4, maxRows: 2 * blockSize };
    const [cpu, reference] = await Promise.all([createCpuBackend()(load), createReferenceBackend(load)]);
    // First a prompt that fills both blocks.
    for (const batch of [rows(0, 2 * blockSize), oneRow(40_000), oneRow(contextLength - 1)]) {
      const got = (await cpu.forward({ canonical: batch })).canonical!;
      const want = (await reference.forward({ canonical: batch })).canonical!;
      expectEqualBits(got.logits, want.logits, `position ${batch.positions[0]}`);
    }
    await Promise.all([cpu.close(), reference.close()]);
  });

  it('takes memory for K/V and tables only where it is used', async () => {
    const load = { ...longModel(64), blockSize, blockCount: 1 + contextLength / blockSize, maxRows: 64 };
    const factory = createCpuBackend();
    await (await factory({ ...load, blockCount: 4 })).close();
    const before = process.memoryUsage.rss();
    const backend = await factory(load);
    await backend.forward({ canonical: oneRow(100) });
    const taken = process.memoryUsage.rss() - before;
    expect(backend.info.memory.kvBytes).toBeGreaterThan(2 ** 30);
    expect(taken).toBeLessThan(2 ** 28);
    await backend.close();
  });
});

function longModel(headSize: number): ConformanceModel {
  return buildModel({
    name: 'long',
    seed: 11,
    vocabSize: 64,
    contextLength,
    layerCount: headSize === 64 ? 8 : 2,
    hiddenSize: 32,
    headCount: 4,
    kvHeadCount: 4,
    headSize,
    feedForwardSize: 32,
    hasBiases: false,
    head: 'tied',
    attentionFormat: 'bf16',
    feedForwardFormat: 'bf16',
    headFormat: 'bf16',
  });
}

function oneRow(position: number): Batch {
  return rows(position, 1);
}

/** Rows of one sequence, whose last block is 1 and all before are 2. */
function rows(first: number, count: number): Batch {
  const ownBlock = Math.floor((first + count - 1) / blockSize);
  return {
    tokens: Int32Array.from({ length: count }, (_, i) => i % 64),
    positions: Int32Array.from({ length: count }, (_, i) => first + i),
    rowStarts: Int32Array.of(0, count),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from({ length: ownBlock + 1 }, (_, i) => (i < ownBlock ? 2 : 1)),
    outputRows: Int32Array.of(count - 1),
    outputKinds: Uint8Array.of(OUTPUT_LOGITS),
  };
}

/** An addon that keeps what `extendRope` gives it of the first rope. */
function recorder() {
  const cosines: Float32Array[] = [];
  const sines: Float32Array[] = [];
  const addon = {
    extendRope(_: NativeHandle, rope: number, cosine: Float32Array, sine: Float32Array): void {
      if (rope > 0) return;
      cosines.push(cosine);
      sines.push(sine);
    },
  } as Partial<Addon> as Addon;
  return {
    addon,
    handle: {} as NativeHandle,
    cosine: () => joined(cosines),
    sine: () => joined(sines),
    positions: () => joined(cosines).length / pairCount(longModel(8).plan),
  };
}

function pairCount(plan: Plan): number {
  return plan.ropes[0].inverseFrequencies.length;
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
