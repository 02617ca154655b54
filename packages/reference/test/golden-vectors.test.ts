import { readFile } from 'node:fs/promises';
import { formatsOf, NUMERICS_ID, weightFormats } from '@stet/backend';
import { modelVectors, opVectors, selfTestModel, selfTestOps } from '@stet/backend/self-test';
import { createReferenceBackend, createReferenceOpRunner } from '@stet/reference';
import { goldenVectorFiles } from '@stet/reference/golden-vectors';
import { describe, expect, it } from 'vitest';

const LIMIT_BYTES = 500_000;
const folder = new URL('../../backend/src/conformance/vectors/', import.meta.url);

describe('golden vectors', () => {
  it('are what the reference makes, byte for byte', async () => {
    let total = 0;
    for (const [name, text] of await goldenVectorFiles()) {
      const stored = await readFile(new URL(name, folder), 'utf8');
      expect(stored === text, `${name} differs from what the reference makes: run npm run vectors`).toBe(true);
      expect(JSON.parse(stored).numerics).toBe(NUMERICS_ID);
      total += stored.length;
    }
    expect(total).toBeLessThan(LIMIT_BYTES);
  });

  it('hold no value whose bits a device may choose: not finite, subnormal or -0', () => {
    for (const vector of opVectors()) {
      const bad = vector.outputs.output.findIndex((x) => !Number.isFinite(x) || Object.is(x, -0) || isSubnormal(x));
      expect(bad, `${vector.name}: value ${bad} is ${vector.outputs.output[bad]}`).toBe(-1);
    }
    for (const vector of modelVectors()) {
      expect(vector.logits.every((x) => Number.isFinite(x) && !Object.is(x, -0) && !isSubnormal(x))).toBe(true);
    }
  });

  it('cover every operation and every format, also in the short list', () => {
    for (const subset of ['startup', 'full'] as const) {
      const vectors = opVectors({ subset });
      const seen = new Set(vectors.map((vector) => [vector.case.kind, ...vector.formats].join(' ')));
      expect([...seen].sort()).toEqual(
        [
          ...['add', 'attention', 'rmsNorm', 'rope', 'swiglu'],
          ...weightFormats.flatMap((format) => [`embed ${format}`, `linear ${format}`]),
        ].sort(),
      );
      expect(vectors.some(({ case: c }) => c.kind === 'rmsNorm' && c.groupCount !== undefined)).toBe(true);
      expect(vectors.some(({ case: c }) => c.kind === 'attention' && c.windowSize !== undefined)).toBe(true);
    }
    expect(opVectors({ formats: ['bf16'] }).some((vector) => vector.formats.includes('q8'))).toBe(false);
    expect(modelVectors({ formats: ['bf16'] })).toHaveLength(2);
    expect(modelVectors({ formats: ['bf16', 'q8'] })).toHaveLength(3);
    expect(new Set(modelVectors().flatMap(({ plan }) => formatsOf(plan)))).toEqual(new Set(weightFormats));
  });

  it('are logits of models that are alive: rows and tokens differ', () => {
    for (const { logits, rows, plan } of modelVectors()) {
      const best = [...rows].map((_, i) => {
        const row = logits.subarray(i * plan.vocabSize, (i + 1) * plan.vocabSize);
        return row.indexOf(Math.max(...row));
      });
      expect(new Set(best).size).toBeGreaterThan(rows.length / 2);
      expect(new Set(logits).size).toBeGreaterThan(logits.length * 0.99);
    }
  });
});

describe('the self-test of the reference', () => {
  it('passes all vectors of operations', async () => {
    const report = await selfTestOps(createReferenceOpRunner(), { subset: 'full' });
    expect(report.failures).toEqual([]);
    expect(report.vectors).toHaveLength(opVectors().length);
  });

  it('passes the models in any chunking', async () => {
    const chunkings = ['prefill', 'chunks', 'decode'] as const;
    const report = await selfTestModel(createReferenceBackend, { chunkings });
    expect(report.failures).toEqual([]);
    expect(report.vectors).toHaveLength(chunkings.length * modelVectors().length);
  });
});

function isSubnormal(x: number): boolean {
  return x !== 0 && Math.abs(x) < 2 ** -126;
}
