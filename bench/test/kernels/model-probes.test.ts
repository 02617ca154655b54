import { checkPlan, createStepChecker, formatsOf, type Op, type Plan } from '@stet/backend';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import { modelProbes } from '../../src/kernels/model-probes.js';
import { BLOCK_SIZE, type KernelProbe } from '../../src/kernels/probe.js';
import { probeWeights } from '../../src/roofline/probe-plan.js';
import { plan } from '../roofline/support/small-plan.js';

const CONTEXT = 32;
const ROWS = [1, 5, 20];
const probes = modelProbes(plan, { formats: ['bf16', 'q4'], contexts: [CONTEXT] });

function opCounts({ ops }: Plan): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of ops) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** How many more of each operation the plan has than the one without what is measured. */
function measuredOps(probe: KernelProbe, copies: number): Record<string, number> {
  const [all, rest] = [opCounts(probe.plan(copies, 'all')), opCounts(probe.plan(copies, 'rest'))];
  const extra = Object.keys(all).map((kind) => [kind, all[kind]! - (rest[kind] ?? 0)] as const);
  return Object.fromEntries(extra.filter(([, count]) => count !== 0));
}

describe('the probes of a model', () => {
  it('are one for every kind of operation, linears by shape and format', () => {
    expect(probes.map(({ kernel, format }) => `${kernel} (${format})`)).toEqual([
      'embed: 96 × 128 (bf16)',
      'rmsNorm of 128 (–)',
      'rope of 4 heads of 32 (–)',
      'kvWrite of 2 heads of 32 (–)',
      'swiglu of 192 (–)',
      'add of 128 (–)',
      'attention of 4 heads of 32, 2 of K/V, one sequence at 32 (K/V)',
      'attention of 4 heads of 32, 2 of K/V, sequences of 1 row at 32 (K/V)',
      ...['bf16', 'q4'].flatMap((format) => [
        `q_proj, k_proj, v_proj: 128 → 128 + 64 + 64 (${format})`,
        `o_proj: 128 → 128 (${format})`,
        `gate_proj, up_proj: 128 → 192 + 192 (${format})`,
        `down_proj: 192 → 128 (${format})`,
      ]),
      'norm, head and arg-max: 128 → 96 (bf16)',
      'norm, head and arg-max: 128 → 96 (q4)',
    ]);
  });

  it('have the operation so many times more than the plan without it, and nothing else', () => {
    const kindOf = (probe: KernelProbe): Op['kind'] => {
      const name = /^\w+/.exec(probe.kernel)![0];
      return (name.endsWith('_proj') ? 'linear' : name) as Op['kind'];
    };
    for (const probe of probes.filter(({ kernel }) => !kernel.startsWith('norm'))) {
      const inGroup = probe.kernel.split('_proj').length - 1 || 1;
      expect([probe.kernel, measuredOps(probe, 3)]).toEqual([probe.kernel, { [kindOf(probe)]: 3 * inGroup }]);
    }
  });

  it('have every linear read by somebody, or a backend could leave it out', () => {
    for (const probe of probes) {
      const { ops } = probe.plan(2, 'all');
      const outputs = ops.flatMap((op, at) => (op.kind === 'linear' || op.kind === 'rmsNorm' ? [{ op, at }] : []));
      for (const { op, at } of outputs) {
        const reader = ops.slice(at + 1).find((one) => one.kind === 'add' && one.left === op.output);
        expect([probe.kernel, reader?.kind]).toEqual([probe.kernel, 'add']);
      }
    }
  });

  it.each(probes.map((probe) => [`${probe.kernel} (${probe.format})`, probe] as const))(
    'run, with batches of the rows that they say: %s',
    async (_name, probe) => {
      const maxRows = Math.max(...ROWS);
      for (const part of ['all', 'rest'] as const) {
        const small = probe.plan(2, part);
        expect(() => checkPlan(small)).not.toThrow();
        const sizes = { blockSize: BLOCK_SIZE, blockCount: probe.blockCount(maxRows), maxRows };
        const check = createStepChecker({ ...sizes, ...small });
        const backend = await createReferenceBackend({ plan: small, weights: probeWeights(), ...sizes });
        for (const batch of probe.context?.(maxRows) ?? []) await backend.forward({ canonical: batch });
        for (const rows of ROWS) {
          const batch = probe.batch(rows);
          expect(() => check({ fast: batch })).not.toThrow();
          expect(batch.tokens).toHaveLength(rows);
        }
        const { canonical } = await backend.forward({ canonical: probe.batch(1) });
        expect(canonical!.argmax).toHaveLength(1);
        await backend.close();
      }
    },
  );

  it('want the arg-max of every row of the head, and of one row elsewhere', () => {
    for (const probe of probes) {
      const wanted = probe.batch(5).outputRows.length;
      expect([probe.kernel, wanted]).toEqual([probe.kernel, probe.kernel.startsWith('norm') ? 5 : 1]);
    }
  });

  it('keep the format that they are asked for', () => {
    const q4 = probes.filter(({ format }) => format === 'q4');
    for (const probe of q4) expect(formatsOf(probe.plan(1, 'all'))).toContain('q4');
  });
});

describe('the work of a probe', () => {
  const work = (name: string, rows: number) => probes.find(({ kernel }) => kernel.startsWith(name))!.work(rows);

  it('is two operations a weight and row, and reads the weights once', () => {
    expect(work('down_proj', 3)).toEqual({
      bytes: 192 * 128 * 2 + 3 * (192 + 128) * 4,
      operations: 2 * 192 * 128 * 3,
    });
  });

  it('is a score and a value for each position that a row attends to', () => {
    // Two planes of 32 and an exponent, of keys and values, for 2 heads.
    const kvBytes = 2 * 2 * (2 * 32 + 1);
    expect(work('attention of 4 heads of 32, 2 of K/V, one sequence', 3)).toEqual({
      bytes: (CONTEXT + 3) * kvBytes + 2 * 3 * 128 * 4,
      operations: 4 * (33 + 34 + 35) * 128,
    });
    expect(work('attention of 4 heads of 32, 2 of K/V, sequences', 3)).toEqual({
      bytes: 3 * (CONTEXT + 1) * kvBytes + 2 * 3 * 128 * 4,
      operations: 4 * (3 * 33) * 128,
    });
  });

  it('is what has to be moved where there are no products', () => {
    expect(work('add', 2)).toEqual({ bytes: 2 * 3 * 128 * 4, operations: 0 });
    expect(work('embed', 2)).toEqual({ bytes: 2 * (128 * 2 + 128 * 4), operations: 0 });
  });
});
