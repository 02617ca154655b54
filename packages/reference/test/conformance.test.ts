import type { BackendFactory, Op } from '@stet/backend';
import {
  caseName,
  conformanceCases,
  conformanceModels,
  conformanceSuite,
  runCase,
  testBackend,
  testOps,
} from '@stet/backend/conformance';
import { createReferenceBackend, createReferenceOpRunner } from '@stet/reference';
import { describe, expect, it } from 'vitest';

testBackend(createReferenceBackend, { name: 'the reference backend' });
testOps(createReferenceOpRunner, { name: 'the reference operations' });

/** The reference with windows of another size than the plan says. */
function withWindows(change: (windowSize: number) => number): BackendFactory {
  return (load) => {
    const ops = load.plan.ops.map((op): Op => {
      if (op.kind !== 'attention' || op.windowSize === undefined) return op;
      return { ...op, windowSize: change(op.windowSize) };
    });
    return createReferenceBackend({ ...load, plan: { ...load.plan, ops } });
  };
}

describe('the conformance suite', () => {
  const before = 'windows: K/V before the windows of all layers may be anything';
  const table = 'windows: entries of a block table before the windows of all layers may name any block';
  const golden =
    'golden: the model head norms, windows, a layer without rope, norms after gives the recorded logits in any chunks';

  it.each([
    ['ignores windows', () => 1000, [before, table, golden], /logits: index/],
    ['looks one position too far', (size: number) => size + 1, [before, golden], /logits: index/],
    ['has windows of one position less', (size: number) => size - 1, [before], /does not count at position/],
  ] as const)('fails a backend that %s', async (_, change, names, message) => {
    for (const name of names) {
      const testCase = conformanceCases.find((each) => caseName(each) === name);
      expect(testCase, name).toBeDefined();
      const suite = conformanceSuite(withWindows(change), conformanceModels()[0]);
      const failure = await runCase(testCase!, suite).catch((error: unknown) => error);
      expect(failure, name).toMatchObject({ name: 'ConformanceFailure' });
      expect((failure as Error).message).toMatch(message);
    }
  });
});
