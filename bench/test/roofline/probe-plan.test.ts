import { checkPlan } from '@stet/backend';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import { linearGroups } from '../../src/roofline/groups.js';
import { attentionProbe, linearProbe, probeWeights } from '../../src/roofline/probe-plan.js';
import { probeBatch } from '../../src/roofline/probes.js';
import { plan } from './support/small-plan.js';

describe('the groups of linears', () => {
  it('are those of one input, counted over all layers, and the head', () => {
    expect(linearGroups(plan)).toEqual([
      { name: 'q_proj, k_proj, v_proj', columns: 128, rows: [128, 64, 64], count: 2 },
      { name: 'o_proj', columns: 128, rows: [128], count: 2 },
      { name: 'gate_proj, up_proj', columns: 128, rows: [192, 192], count: 2 },
      { name: 'down_proj', columns: 192, rows: [128], count: 2 },
      { name: 'head', columns: 128, rows: [96], count: 1 },
    ]);
  });
});

describe('a probe', () => {
  const [group] = linearGroups(plan);

  it('has weights of its own for every copy, and is a plan that backends take', () => {
    for (const format of ['bf16', 'q8', 'q4'] as const) {
      const probe = linearProbe(plan, group!, format, 5);
      expect(() => checkPlan(probe)).not.toThrow();
      const used = probe.ops.flatMap((op) => (op.kind === 'linear' ? [op.weight] : []));
      expect(used).toHaveLength(15);
      expect(new Set(used).size).toBe(15);
    }
  });

  it('without the part that is measured is a plan too', () => {
    expect(linearProbe(plan, group!, 'q8', 0).ops.map(({ kind }) => kind)).toEqual(['embed', 'logits']);
    for (const part of ['all', 'without attention'] as const)
      expect(() => checkPlan(attentionProbe(plan, 4, part))).not.toThrow();
  });

  it.each(['all', 'without attention'] as const)('of attention runs: %s', async (part) => {
    const probe = attentionProbe(plan, 4, part);
    const backend = await createReferenceBackend({
      plan: probe,
      weights: probeWeights(),
      blockSize: 16,
      blockCount: 8,
      maxRows: 32,
    });
    const { canonical } = await backend.forward({ canonical: probeBatch(2, 5, 0) });
    expect(canonical!.argmax).toHaveLength(2);
    await backend.close();
  });
});
