import { describe, expect, it } from 'vitest';
import { conformanceModels } from '../src/conformance/models.js';
import { checkPlan, isStetError, type Op, type Plan } from '../src/index.js';

const good = conformanceModels()[0]!.plan;

function withOp(kind: Op['kind'], change: Record<string, unknown>): Plan {
  const index = good.ops.findIndex((op) => op.kind === kind);
  return { ...good, ops: good.ops.map((op, i) => (i === index ? ({ ...op, ...change } as Op) : op)) };
}

function withWeight(name: string, change: Record<string, unknown>): Plan {
  return {
    ...good,
    weights: good.weights.map((spec) => (spec.name === name ? ({ ...spec, ...change } as typeof spec) : spec)),
  };
}

const without = (kind: Op['kind']): Plan => ({ ...good, ops: good.ops.filter((op) => op.kind !== kind) });
const rope = good.ropes[0]!;
const bufferId = (name: string): number => good.buffers.findIndex((buffer) => buffer.name === name);
const weightId = (name: string): number => good.weights.findIndex((spec) => spec.name === name);

/** The first norm in so many groups, with a weight that fits them. */
function grouped(groupCount: number, epsilon: number): Plan {
  const weights = good.weights.length;
  const plan = withOp('rmsNorm', { groupCount, epsilon, weight: weights });
  return {
    ...plan,
    weights: [...good.weights, { kind: 'vector', name: 'groups', size: 64 / groupCount, role: 'norm' }],
  };
}

const badPlans: [string, Plan, RegExp][] = [
  ['no vocabulary', { ...good, vocabSize: 0 }, /vocabSize is 0/],
  ['a context that is no integer', { ...good, contextLength: 1.5 }, /contextLength is 1.5/],
  ['no layers', { ...good, layerCount: 0 }, /layerCount is 0/],
  ['no K/V heads', { ...good, kvHeadCount: 0 }, /kvHeadCount is 0/],
  ['an odd head size', { ...good, headSize: 15 }, /headSize 15 is odd/],
  [
    'an empty buffer',
    { ...good, buffers: [{ name: 'x', width: 0 }, ...good.buffers.slice(1)] },
    /width of buffer x is 0/,
  ],
  [
    'a rope of another size',
    { ...good, ropes: [{ ...rope, inverseFrequencies: [1] }] },
    /1 frequencies, expected .* 8/,
  ],
  [
    'a rope that turns too fast',
    { ...good, ropes: [{ ...rope, inverseFrequencies: rope.inverseFrequencies.map(() => 1e5) }] },
    /angles pass/,
  ],
  [
    'a rope that is no number',
    { ...good, ropes: [{ ...rope, inverseFrequencies: rope.inverseFrequencies.map(() => Number.NaN) }] },
    /angles pass/,
  ],
  ['a rope without a factor', { ...good, ropes: [{ ...rope, attentionFactor: 0 }] }, /attention factor 0/],
  ['a matrix without rows', withWeight('embedding', { rows: 0 }), /rows of embedding is 0/],
  ['a matrix that is too wide', withWeight('embedding', { columns: 32769 }), /32769 columns/],
  ['an unknown format', withWeight('embedding', { format: 'f16' }), /unknown format f16/],
  ['an unknown role', withWeight('norm', { role: 'scale' }), /unknown role scale/],
  ['an unknown kind of weight', withWeight('norm', { kind: 'tensor' }), /unknown kind "tensor"/],
  ['an unknown op', withOp('swiglu', { kind: 'gelu' }), /unknown kind "gelu"/],
  ['no ops', { ...good, ops: [] }, /logits is not the one last op/],
  ['no logits', without('logits'), /logits is not the one last op/],
  ['two logits', { ...good, ops: [...good.ops, good.ops.at(-1)!] }, /logits is not the one last op/],
  ['a buffer that does not exist', withOp('embed', { output: 99 }), /names buffer 99/],
  ['a buffer read before it is written', without('embed'), /reads buffer hidden before anything wrote it/],
  ['a table of another height', { ...good, vocabSize: 97 }, /rows of embedding 96, expected 97/],
  ['a vector where a matrix belongs', withOp('embed', { table: weightId('norm') }), /which is not a matrix/],
  [
    'a bias where a norm belongs',
    withOp('rmsNorm', { weight: weightId('layers.0.query.bias') }),
    /which is not a norm/,
  ],
  ['a norm where a bias belongs', withOp('linear', { bias: weightId('norm') }), /which is not a bias/],
  ['a norm of another size', withWeight('layers.0.attention.norm', { size: 63 }), /size of .* 63, expected 64/],
  ['a norm into another width', withOp('rmsNorm', { output: bufferId('gate') }), /output width 96, expected 64/],
  ['an epsilon of zero', withOp('rmsNorm', { epsilon: 0 }), /epsilon 0/],
  ['no groups', withOp('rmsNorm', { groupCount: 0 }), /op 1 \(rmsNorm\): groupCount is 0/],
  ['a fraction of groups', withOp('rmsNorm', { groupCount: 0.5 }), /groupCount is 0.5/],
  ['groups that do not divide a row', withOp('rmsNorm', { groupCount: 3 }), /3 groups, which do not divide .* 64/],
  ['a weight of the row where a group has one', withOp('rmsNorm', { groupCount: 4 }), /size of .* 64, expected 16/],
  ['an epsilon that vanishes in a group', grouped(4, 2 ** -65), /outside 2\^-60 \/ 16/],
  ['an epsilon that is no number', withOp('logits', { epsilon: Number.NaN }), /epsilon NaN/],
  ['a linear in place', withOp('linear', { output: bufferId('normed') }), /writes its own input/],
  [
    'a linear of another shape',
    withOp('linear', { output: bufferId('gate') }),
    /rows of layers.0.query 64, expected 96/,
  ],
  ['a rope that does not exist', withOp('rope', { rope: 1 }), /names rope 1/],
  ['a rope over other heads', withOp('rope', { headCount: 3 }), /buffer width 64, expected 48/],
  ['a fraction of heads', withOp('rope', { headCount: 0.5 }), /headCount is 0.5/],
  ['a layer that does not exist', withOp('kvWrite', { layer: 2 }), /names layer 2/],
  ['a layer written twice', withOp('kvWrite', { layer: 1 }), /reads layer 0 before/],
  ['keys of another width', withOp('kvWrite', { key: bufferId('query') }), /key width 64, expected 32/],
  ['attention before K/V', without('kvWrite'), /reads layer 0 before/],
  ['a window of no position', withOp('attention', { windowSize: 0 }), /op \d+ \(attention\): windowSize is 0/],
  ['a window of half a position', withOp('attention', { windowSize: 16.5 }), /windowSize is 16.5/],
  ['a window without end', withOp('attention', { windowSize: Number.POSITIVE_INFINITY }), /windowSize is Infinity/],
  ['attention in place', withOp('attention', { output: bufferId('query') }), /writes its own input/],
  ['heads that do not share K/V evenly', { ...good, kvHeadCount: 4 }, /key width 32, expected 64/],
  ['a gate of another width than up', withOp('swiglu', { up: bufferId('normed') }), /up width 64, expected 96/],
  [
    'a sum of two widths',
    withOp('add', { right: bufferId('query'), left: bufferId('key') }),
    /right width 64, expected 32/,
  ],
];

describe('checkPlan', () => {
  it.each(conformanceModels().map((model) => [model.name, model.plan] as const))('accepts the model %s', (_, plan) => {
    expect(() => checkPlan(plan)).not.toThrow();
  });

  it('accepts groups of any size that divides a row, and windows of one position or of more than the context', () => {
    for (const groupCount of [1, 4, 64]) expect(() => checkPlan(grouped(groupCount, 1e-6))).not.toThrow();
    // As wide as the row this epsilon is in the domain; in a group of 16 it is not.
    expect(() => checkPlan(grouped(1, 2 ** -65))).not.toThrow();
    for (const windowSize of [1, 5000]) expect(() => checkPlan(withOp('attention', { windowSize }))).not.toThrow();
  });

  it.each(badPlans)('refuses %s', (_, plan, message) => {
    let error: unknown;
    try {
      checkPlan(plan);
    } catch (caught) {
      error = caught;
    }
    expect(isStetError(error) && error.code).toBe('STET_ERR_BAD_PLAN');
    expect((error as Error).message).toMatch(message);
  });

  it('refuses a second write of a layer that was written', () => {
    const second = good.ops.findLastIndex((op) => op.kind === 'kvWrite');
    const ops = good.ops.map((op, i) => (i === second ? ({ ...op, layer: 0 } as Op) : op));
    expect(() => checkPlan({ ...good, ops })).toThrow(/writes layer 0 a second time/);
  });

  it('refuses query heads that K/V heads cannot share', () => {
    const query = good.buffers.length;
    const buffers = [...good.buffers, { name: 'query3', width: 48 }, { name: 'attended3', width: 48 }];
    const weights = [
      ...good.weights,
      { kind: 'matrix', name: 'query3', rows: 48, columns: 64, format: 'bf16' } as const,
    ];
    const ops = good.ops.map((op) =>
      op.kind === 'attention' ? { ...op, headCount: 3, query, output: query + 1 } : op,
    );
    const write: Op = { kind: 'linear', input: bufferId('normed'), weight: good.weights.length, output: query };
    ops.splice(2, 0, write);
    expect(() => checkPlan({ ...good, buffers, weights, ops })).toThrow(/3 heads, which do not share 2/);
  });
});
