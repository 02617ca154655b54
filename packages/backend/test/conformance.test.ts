import { describe, expect, it } from 'vitest';
import { batchOf, feed, forward, scatterTables } from '../src/conformance/drive.js';
import {
  caseName,
  conformanceCases,
  conformanceModels,
  expectEqualBits,
  testBackend,
  testOps,
  tiedModel,
} from '../src/conformance/index.js';
import { formatReason, skipReasons } from '../src/conformance/skip.js';
import { type Backend, type BatchResult, formatsOf } from '../src/index.js';

describe('expectEqualBits', () => {
  it('accepts equal bits, also of NaN and -0', () => {
    const values = Float32Array.of(1, -0, Number.NaN, Number.POSITIVE_INFINITY);
    expect(() => expectEqualBits(values, values.slice(), 'x')).not.toThrow();
  });

  it('names the first index, both values and their bits', () => {
    const got = Float32Array.of(1, 2, 3);
    const want = Float32Array.of(1, 2.0000002384185791, -3);
    expect(() => expectEqualBits(got, want, 'row 4, position 9')).toThrow(
      'row 4, position 9: index 1 is 2 (0x40000000), expected 2.000000238418579 (0x40000001); 2 of 3 values differ',
    );
  });

  it('tells 0 from -0 and one NaN from another', () => {
    expect(() => expectEqualBits(Float32Array.of(0), Float32Array.of(-0), 'x')).toThrow('0x00000000');
    const nan = new Float32Array(Uint32Array.of(0x7fc00001).buffer);
    expect(() => expectEqualBits(Float32Array.of(Number.NaN), nan, 'x')).toThrow('0x7fc00001');
  });

  it('refuses arrays of different lengths and reads views where they are', () => {
    const all = Float32Array.of(1, 2, 3, 4);
    expect(() => expectEqualBits(all.subarray(1, 3), Float32Array.of(2, 3), 'x')).not.toThrow();
    expect(() => expectEqualBits(all, all.subarray(1), 'x')).toThrow('4 values, expected 3');
  });
});

describe('skips', () => {
  const names = conformanceCases.map(caseName);
  const unused = () => Promise.reject(new Error('not called'));

  it('give the reason of each test', () => {
    const reasons = skipReasons([{ reason: 'why', tests: [names[0]!, names[1]!] }], names);
    expect([...reasons]).toEqual([
      [names[0], 'why'],
      [names[1], 'why'],
    ]);
  });

  it('refuse an unknown test, a test twice and a missing reason', () => {
    expect(() => testBackend(unused, { skip: [{ reason: 'why', tests: ['nonsense'] }] })).toThrow(
      'unknown test "nonsense"',
    );
    expect(() => testOps(unused, { skip: [{ reason: 'why', tests: ['nonsense'] }] })).toThrow(
      'unknown test "nonsense"',
    );
    expect(() => skipReasons([{ reason: 'why', tests: [names[0]!, names[0]!] }], names)).toThrow('twice');
    expect(() => skipReasons([{ reason: ' ', tests: [names[0]!] }], names)).toThrow('without a reason');
  });

  it('say which formats a backend lacks, and nothing where it has all', () => {
    expect(formatReason(['q8', 'q4', 'bf16'], ['bf16'])).toBe('the backend has no q8 and no q4');
    expect(formatReason([], [])).toBeUndefined();
    expect(formatReason(['q4'], ['q8', 'q4'])).toBeUndefined();
    const needing = conformanceCases.filter(({ formats }) => formats?.includes('q4'));
    expect(needing.map(caseName)).toEqual([
      'golden: the model four bits, a head of eight gives the recorded logits in any chunks',
    ]);
  });

  it('could name every case, since names are unique', () => {
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('models of the suite', () => {
  it('read the same weights every time', async () => {
    for (const { plan, weights } of [...conformanceModels(), tiedModel()]) {
      for (const spec of plan.weights) expect(await weights.read(spec)).toEqual(await weights.read(spec));
    }
  });

  it('share K/V among heads, have biases, and tie or own their heads, in every format', () => {
    const [grouped, odd] = conformanceModels().map(({ plan }) => plan);
    const headOf = (plan: typeof grouped) => plan!.ops.at(-1) as { weight: number };
    expect(headOf(grouped).weight).toBe(0);
    expect(headOf(odd).weight).not.toBe(0);
    expect(grouped!.weights.some((spec) => spec.kind === 'vector' && spec.role === 'bias')).toBe(true);
    expect(conformanceModels().map(({ plan }) => formatsOf(plan))).toEqual([['bf16'], ['q8', 'bf16'], ['q8', 'q4']]);
  });

  it('have norms of heads and a window in one of them, and nothing of it in the other', () => {
    const [grouped, odd] = conformanceModels().map(({ plan }) =>
      plan.ops.flatMap((op) => {
        if (op.kind === 'rmsNorm') return op.groupCount ?? [];
        return op.kind === 'attention' && op.windowSize !== undefined ? `window ${op.windowSize}` : [];
      }),
    );
    expect(grouped).toEqual([]);
    // Three query heads and one K/V head in each layer: one group is no group.
    expect(odd).toEqual([3, 'window 21', 3]);
  });

  it('have equal head rows where ties are wanted', async () => {
    const { plan, weights } = tiedModel();
    const head = await weights.read(plan.weights.find((spec) => spec.name === 'head')!);
    const bits = head.kind === 'bf16' ? head.bits : new Uint16Array(0);
    expect(bits.subarray(0, 64)).toEqual(bits.subarray(32 * 64, 33 * 64));
    expect(bits.subarray(0, 64)).not.toEqual(bits.subarray(64, 128));
  });
});

describe('driving a backend', () => {
  const rows = { tokens: [1, 2, 3], position: 4, blocks: [7], want: ['none', 'argmax', 'logits'] as const };

  it('makes columns of rows', () => {
    const batch = batchOf([rows, { tokens: [9], position: 0, blocks: [2, 3] }]);
    expect(Object.fromEntries(Object.entries(batch).map(([name, column]) => [name, [...column]]))).toEqual({
      tokens: [1, 2, 3, 9],
      positions: [4, 5, 6, 0],
      rowStarts: [0, 3, 4],
      blockStarts: [0, 1],
      blocks: [7, 2, 3],
      outputRows: [1, 2, 3],
      outputKinds: [0, 1, 1],
    });
  });

  it('scatters block tables with impossible ids around them', () => {
    const { blockStarts, blocks } = scatterTables(batchOf([rows, { tokens: [9], position: 0, blocks: [2, 3] }]));
    expect([...blockStarts]).toEqual([4, 1]);
    expect([...blocks]).toEqual([-1, 2, 3, -1, 7, -1]);
  });

  /** Answers every batch with this result. */
  const answering = (result: Partial<BatchResult>): Backend => ({
    info: { vocabSize: 2, maxRows: 2 } as Backend['info'],
    forward: async () => ({
      canonical: {
        argmax: Int32Array.of(1, 0),
        argmaxLogit: Float32Array.of(5, 3),
        runnerUpLogit: Float32Array.of(4, 2),
        logits: Float32Array.of(3, 2),
        ...result,
      },
    }),
    close: async () => {},
  });

  it('gives answers row by row, copied', async () => {
    const { canonical } = await forward(answering({}), { canonical: [rows] });
    expect(canonical).toEqual([
      [
        undefined,
        { position: 5, argmax: 1, argmaxLogit: 5, runnerUpLogit: 4 },
        { position: 6, argmax: 0, argmaxLogit: 3, runnerUpLogit: 2, logits: Float32Array.of(3, 2) },
      ],
    ]);
  });

  it.each<[string, Partial<BatchResult>, RegExp]>([
    ['too few arg-maxes', { argmax: Int32Array.of(1) }, /length of canonical argmax: 1, expected 2/],
    ['too few logits of the arg-max', { argmaxLogit: Float32Array.of(1) }, /argmaxLogit: 1, expected 2/],
    ['logits nobody asked for', { logits: new Float32Array(4) }, /length of canonical logits: 4, expected 2/],
    ['an arg-max that is not the largest', { argmax: Int32Array.of(1, 1) }, /arg-max: 1, expected 0/],
    [
      'the higher of two equal ones',
      { argmax: Int32Array.of(1, 1), logits: Float32Array.of(3, 3) },
      /arg-max: 1, expected 0/,
    ],
    ['another logit than its arg-max has', { argmaxLogit: Float32Array.of(5, 4) }, /logit of the arg-max/],
    ['too few runner-up logits', { runnerUpLogit: Float32Array.of(1) }, /runnerUpLogit: 1, expected 2/],
    [
      'a runner-up below one of two largest logits',
      { logits: Float32Array.of(3, 3) },
      /row 2, position 6: runner-up logit: index 0 is 2 .*, expected 3/,
    ],
    [
      'a runner-up above its arg-max',
      { runnerUpLogit: Float32Array.of(6, 2) },
      /row 1, position 5: the runner-up logit is 6, the largest 5/,
    ],
    [
      'no runner-up where there is one',
      { runnerUpLogit: Float32Array.of(Number.NEGATIVE_INFINITY, 2) },
      /the runner-up logit is -Infinity/,
    ],
    ['no number', { argmaxLogit: Float32Array.of(Number.NaN, 3) }, /largest logit is NaN/],
  ])('refuses a result with %s', async (_, result, message) => {
    await expect(forward(answering(result), { canonical: [rows] })).rejects.toThrow(message);
  });

  it('refuses a result without the batch that was asked for, or with another', async () => {
    await expect(forward(answering({}), { fast: [rows] })).rejects.toThrow(/a fast batch, its result none/);
    await expect(forward(answering({}), { fast: [rows], canonical: [rows] })).rejects.toThrow(/a fast batch/);
  });

  it('feeds a sequence in chunks', async () => {
    const positions: number[][] = [];
    const backend: Backend = {
      ...answering({}),
      forward: async ({ canonical }) => {
        positions.push([...canonical!.positions]);
        const none = new Float32Array();
        return { canonical: { argmax: new Int32Array(), argmaxLogit: none, runnerUpLogit: none, logits: none } };
      },
    };
    await feed(backend, 'canonical', { tokens: [1, 2, 3, 4, 5, 6], blocks: [1] }, { first: 1, want: 'none' });
    expect(positions).toEqual([[1, 2], [3, 4], [5]]);
  });
});
