import { describe, expect, it } from 'vitest';
import type { Backend, BackendFactory, BatchResult, OpCase, OpRunner, Step } from '../src/index.js';
import { bitsOf, fromBits } from '../src/numerics/index.js';
import {
  assertSelfTest,
  compareBits,
  decodeFloats,
  encodeFloats,
  modelVectors,
  opCases,
  opVectors,
  selfTestModel,
  selfTestOps,
} from '../src/self-test/index.js';

type Change = (output: Float32Array, input: OpCase) => Float32Array;

/** Answers every vector with what was recorded, after a change; it knows a case by its content. */
function recordedRunner(change: Change = (output) => output): OpRunner {
  const answers = new Map(opVectors().map((vector) => [contentOf(vector.case), vector.outputs.output]));
  return {
    run: async (input) => ({ output: change(answers.get(contentOf(input))!.slice(), input) }),
    close: async () => {},
  };
}

function contentOf(input: OpCase): string {
  return JSON.stringify(input, (_, value) => (ArrayBuffer.isView(value) ? hash(value) : value));
}

function hash(view: ArrayBufferView): string {
  let sum = 0;
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  for (const byte of bytes) sum = (Math.imul(sum, 31) + byte + 1) | 0;
  return `${bytes.length}:${sum}`;
}

/** The same value with its last bit flipped. */
const nudge = (x: number): number => fromBits(bitsOf(x) ^ 1);

describe('selfTestOps', () => {
  it('passes a runner that gives the recorded bits, for both lists', async () => {
    for (const subset of ['startup', 'full'] as const) {
      const report = await selfTestOps(recordedRunner(), { subset });
      expect(report.failures).toEqual([]);
      expect(report.valueCount).toBeGreaterThan(1000);
      expect(() => assertSelfTest(report)).not.toThrow();
    }
  });

  it('finds one flipped bit and names vector, index and both values', async () => {
    const report = await selfTestOps(
      recordedRunner((output, input) => (input.kind === 'rope' ? output.with(17, nudge(output[17]!)) : output)),
    );
    const expected = opVectors({ subset: 'startup' }).find((vector) => vector.case.kind === 'rope')!.outputs
      .output[17]!;
    expect(report.failures).toEqual([
      { kind: 'value', vector: 'rope: heads of 32', index: 17, expected, actual: nudge(expected) },
    ]);
    const bits = (x: number): string => `0x${bitsOf(x).toString(16).padStart(8, '0')}`;
    expect(() => assertSelfTest(report)).toThrow(
      expect.objectContaining({
        code: 'STET_ERR_CANONICAL_REFUSED',
        message: `rope: heads of 32: value 17 is ${bits(nudge(expected))} (${nudge(expected)}), expected ${bits(expected)} (${expected})`,
      }),
    );
  });

  it('tells -0 from +0 and a NaN from a number', () => {
    expect(compareBits('v', Float32Array.of(0), Float32Array.of(-0))).toMatchObject({ index: 0 });
    expect(compareBits('v', Float32Array.of(1, 2), Float32Array.of(1, Number.NaN), 10)).toMatchObject({ index: 11 });
    expect(compareBits('v', Float32Array.of(1, 2), Float32Array.of(1, 2))).toBeUndefined();
  });

  it('takes a missing output, a refusal and an empty selection for failures', async () => {
    const short = await selfTestOps(recordedRunner((output) => output.subarray(1)));
    expect(short.failures).toHaveLength(short.vectors.length);
    expect(() => assertSelfTest(short)).toThrow(/values, expected .* more vectors/);
    const cause = new Error('no kernel');
    const refusing = await selfTestOps({ run: async () => Promise.reject(cause), close: async () => {} });
    expect(() => assertSelfTest(refusing)).toThrow(expect.objectContaining({ cause }));
    const nothing = { numerics: 'stet-1', vectors: [], valueCount: 0, failures: [] } as const;
    expect(() => assertSelfTest(nothing)).toThrow(/compared nothing/);
  });

  it('leaves out formats that a backend has not', async () => {
    const report = await selfTestOps(recordedRunner(), { formats: ['bf16'] });
    expect(report.vectors.filter((name) => /q8|q4/.test(name))).toEqual([]);
    expect(report.vectors.some((name) => name.includes('bf16'))).toBe(true);
  });
});

describe('selfTestModel', () => {
  const vectors = modelVectors();
  const closed: string[] = [];

  /** Backends that answer with the recorded logits, after a change of them or of what is made of them. */
  function recordedFactory(
    change: (logits: Float32Array, position: number) => void = () => {},
    changeResult: (result: BatchResult) => void = () => {},
  ): BackendFactory {
    return async (load) => {
      const vector = vectors.find((candidate) => candidate.plan.vocabSize === load.plan.vocabSize)!;
      const { vocabSize } = load.plan;
      const forward = async ({ canonical }: Step) => {
        const { outputRows, positions } = canonical!;
        const logits = new Float32Array(outputRows.length * vocabSize);
        for (const [i, row] of outputRows.entries()) {
          const recorded = vector.rows.indexOf(positions[row]!) * vocabSize;
          const slice = vector.logits.slice(recorded, recorded + vocabSize);
          change(slice, positions[row]!);
          logits.set(slice, i * vocabSize);
        }
        const rows = [...outputRows.keys()].map((i) => logits.subarray(i * vocabSize, (i + 1) * vocabSize));
        const argmax = Int32Array.from(rows, (row) => row.indexOf(Math.max(...row)));
        const argmaxLogit = Float32Array.from(rows, (row) => Math.max(...row));
        const runnerUpLogit = Float32Array.from(rows, (row) => row.toSorted().at(-2)!);
        changeResult({ argmax, argmaxLogit, runnerUpLogit, logits });
        return { canonical: { argmax, argmaxLogit, runnerUpLogit, logits } };
      };
      const close = async (): Promise<void> => void closed.push(vector.name);
      return { info: {} as Backend['info'], forward, close };
    };
  }

  it('passes a backend that gives the recorded bits and closes it', async () => {
    closed.length = 0;
    const report = await selfTestModel(recordedFactory(), { chunkings: ['prefill', 'chunks', 'decode'] });
    expect(report.failures).toEqual([]);
    expect(report.vectors).toHaveLength(3 * vectors.length);
    expect(report.valueCount).toBe(3 * vectors.reduce((sum, vector) => sum + vector.logits.length, 0));
    expect(closed).toEqual(vectors.map((vector) => vector.name));
  });

  it('finds one flipped bit of one row, at its index among the recorded logits', async () => {
    const [first] = vectors;
    const row = first!.rows.indexOf(64);
    const report = await selfTestModel(
      recordedFactory((logits, position) => {
        if (position === 64) logits[3] = nudge(logits[3]!);
      }),
      { chunkings: ['chunks'] },
    );
    expect(report.failures).toHaveLength(vectors.length);
    expect(report.failures[0]).toMatchObject({
      vector: `${first!.name}, chunks`,
      index: row * first!.plan.vocabSize + 3,
    });
  });

  it.each([
    ['argmaxLogit', 'argmax logit'],
    ['runnerUpLogit', 'runner-up logit'],
  ] as const)('finds one flipped bit of %s, though all logits are right', async (name, said) => {
    const factory = recordedFactory(undefined, (result) => {
      result[name][0] = nudge(result[name][0]!);
    });
    const report = await selfTestModel(factory, { chunkings: ['prefill'] });
    expect(report.failures).toHaveLength(vectors.length);
    expect(report.failures[0]).toMatchObject({ vector: `${vectors[0]!.name}, prefill, ${said}`, index: 0 });
  });

  it('reports a backend that cannot be loaded', async () => {
    const report = await selfTestModel(async () => Promise.reject(new Error('no device')));
    expect(report.failures).toHaveLength(vectors.length);
    expect(() => assertSelfTest(report)).toThrow(/no device/);
  });
});

describe('golden vector files', () => {
  it('keep the bits of every float', () => {
    const values = new Float32Array(Uint32Array.of(0, 0x80000000, 1, 0x3f800001, 0x7f7fffff, 0xff800000).buffer);
    const back = decodeFloats(encodeFloats(values));
    expect([...new Uint32Array(back.buffer)]).toEqual([...new Uint32Array(values.buffer)]);
  });

  it('are made from the same inputs each time', () => {
    const once = opCases().map((spec) => contentOf(spec.build()));
    expect(opCases().map((spec) => contentOf(spec.build()))).toEqual(once);
    expect(new Set(opCases().map((spec) => spec.name)).size).toBe(once.length);
  });
});
