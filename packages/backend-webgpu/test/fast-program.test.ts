import { assertNever, type BufferId, type Op, type Plan } from '@stet/backend';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeviceModel } from '../src/program/device-model.js';
import { fastCalls } from '../src/program/fast-program.js';
import type { KernelCall } from '../src/program/kernel-call.js';
import { matrixOf, vectorOf } from '../src/program/operands.js';
import type { ProgramScratch } from '../src/program/scratch.js';
import type { DeviceWeight } from '../src/weights/device-weight.js';

/*
 * Plans and calls are run on terms in place of numbers: a buffer holds what was computed as text. Whatever is fused, the logits and
 * all that was put into K/V must be the same terms as those of the plan's ops one by one.
 */

const WIDTH = 32;
const BUFFERS = 6;
/** Weights 0..3 are matrices that are alike, 4 and 5 others, 6 and 7 vectors. */
const MATRICES = 6;

describe('the fast program of a plan', () => {
  it('computes what the ops one by one compute, whatever it fuses', () => {
    const fused = { NORM: 0, ADD: 0, SWIGLU: 0, STORE_TWO: 0 };
    fc.assert(
      fc.property(ops, logits, (ops, last) => {
        const model = modelOf([...ops, last]);
        const calls = callsOf(model);
        expect(termsOfCalls(calls)).toEqual(termsOfOps(model));
        const names = calls.slice(0, -1).flatMap((call) => call.kernel.name.split(' '));
        for (const word of names) if (word in fused) fused[word as keyof typeof fused]++;
      }),
      { numRuns: 400, seed: 20261129 },
    );
    for (const [word, count] of Object.entries(fused)) expect(count, word).toBeGreaterThan(20);
  });

  it('fuses the norms, the pairs of linears, the swiglu and the residual adds of a decoder', () => {
    expect(kernelsOf(decoderLayer({}))).toEqual([
      'linear_fast row FORMAT_BF16 QUADS NORM',
      'rope',
      'linear_fast row FORMAT_BF16 TWO STORE_TWO QUADS NORM',
      'rope',
      'kv_write',
      'attention_fast',
      'linear_fast row FORMAT_BF16 ADD QUADS',
      'linear_fast row FORMAT_BF16 TWO SWIGLU QUADS NORM',
      'linear_fast row FORMAT_BF16 ADD QUADS',
      'linear_fast row FORMAT_BF16 QUADS NORM GATHER',
    ]);
  });

  it('calls linears with biases one by one', () => {
    const kernels = kernelsOf(decoderLayer({ bias: 7 }));
    expect(kernels.filter((name) => name.includes('TWO'))).toEqual([]);
    expect(kernels.filter((name) => name.includes('BIAS')).length).toBe(7);
    expect(kernels).toContain('swiglu');
  });
});

const bufferId = fc.nat({ max: BUFFERS - 3 });
const matrixId = fc.nat({ max: MATRICES - 1 });
const vectorId = fc.constantFrom(6, 7);
const fields = { input: bufferId, weight: matrixId, output: bufferId };

const op: fc.Arbitrary<Op> = fc.oneof(
  fc
    .record({ ...fields, bias: fc.option(vectorId, { nil: undefined }) })
    .filter(({ input, output }) => input !== output)
    .map(({ bias, ...linear }): Op => ({ kind: 'linear', ...linear, ...(bias !== undefined && { bias }) })),
  fc
    .record({ ...fields, weight: vectorId, groupCount: fc.constantFrom(1, 1, 2) })
    .map((norm): Op => ({ kind: 'rmsNorm', epsilon: 1e-5, ...norm })),
  fc.record({ left: bufferId, right: bufferId, output: bufferId }).map((add): Op => ({ kind: 'add', ...add })),
  fc
    .record({ other: bufferId, hidden: bufferId })
    .map(({ other, hidden }): Op => ({ kind: 'add', left: hidden, right: other, output: hidden })),
  fc.record({ gate: bufferId, up: bufferId, output: bufferId }).map((swiglu): Op => ({ kind: 'swiglu', ...swiglu })),
  fc.record({ buffer: bufferId }).map(({ buffer }): Op => ({ kind: 'rope', buffer, headCount: 1, rope: 0 })),
  fc.record({ key: bufferId, value: bufferId }).map((write): Op => ({ kind: 'kvWrite', layer: 0, ...write })),
  fc
    .record({ query: bufferId, output: bufferId })
    .filter(({ query, output }) => query !== output)
    .map((attention): Op => ({ kind: 'attention', layer: 0, headCount: 1, ...attention })),
);

/** What is fused where nothing comes between, and whatever may come between. */
const phrase: fc.Arbitrary<Op[]> = fc
  .record({
    kind: fc.constantFrom('norm', 'add', 'swiglu'),
    buffers: fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4, maxLength: 4 }),
    weights: fc.tuple(matrixId, matrixId),
    between: fc.array(op, { maxLength: 1 }),
    target: fc.nat({ max: 3 }),
  })
  .map(({ kind, buffers: [a, b, c, d], weights: [first, second], between, target }): Op[] => {
    const linear: Op = { kind: 'linear', input: a!, weight: first, output: b! };
    switch (kind) {
      case 'norm':
        return [
          { kind: 'rmsNorm', input: c!, weight: 6, epsilon: 1e-5, output: a! },
          ...between,
          linear,
          { ...linear, weight: second, output: d! },
        ];
      case 'add':
        return [linear, ...between, { kind: 'add', left: c!, right: b!, output: c! }];
      case 'swiglu':
        return [
          linear,
          { ...linear, weight: second, output: c! },
          ...between,
          { kind: 'swiglu', gate: b!, up: c!, output: target },
        ];
      default:
        return assertNever(kind);
    }
  });

/** Few buffers are written again and again. */
const ops = fc
  .array(
    fc.oneof(
      phrase,
      op.map((one) => [one]),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.flat());

const logits = bufferId.map((input) => ({ kind: 'logits', input, norm: 6, epsilon: 1e-5, weight: 0 }) as const);

/** Buffers: hidden, normed, query, key and gate, value and up, residual. */
function decoderLayer(bias: { bias?: number }): DeviceModel {
  const norm = { kind: 'rmsNorm', input: 0, weight: 6, epsilon: 1e-5, output: 1 } as const;
  return modelOf([
    norm,
    // Queries have more heads than keys: their matrix is not like the others.
    { kind: 'linear', input: 1, weight: 4, ...bias, output: 2 },
    { kind: 'linear', input: 1, weight: 0, ...bias, output: 3 },
    { kind: 'linear', input: 1, weight: 1, ...bias, output: 4 },
    { kind: 'rope', buffer: 2, headCount: 1, rope: 0 },
    { kind: 'rope', buffer: 3, headCount: 1, rope: 0 },
    { kind: 'kvWrite', layer: 0, key: 3, value: 4 },
    { kind: 'attention', layer: 0, query: 2, headCount: 1, output: 1 },
    { kind: 'linear', input: 1, weight: 0, ...bias, output: 5 },
    { kind: 'add', left: 0, right: 5, output: 0 },
    { ...norm, weight: 7 },
    { kind: 'linear', input: 1, weight: 2, ...bias, output: 3 },
    { kind: 'linear', input: 1, weight: 3, ...bias, output: 4 },
    { kind: 'swiglu', gate: 3, up: 4, output: 3 },
    { kind: 'linear', input: 3, weight: 0, ...bias, output: 5 },
    { kind: 'add', left: 0, right: 5, output: 0 },
    { kind: 'logits', input: 0, norm: 6, epsilon: 1e-5, weight: 0 },
  ]);
}

/** A buffer that is its label. */
function fakeBuffer(label: string): GPUBuffer {
  return { label, size: 1 } as GPUBuffer;
}

const fakeLogits = fakeBuffer('logits');

function modelOf(ops: readonly Op[]): DeviceModel {
  const weights = Array.from({ length: 8 }, (_, id): DeviceWeight => {
    if (id >= MATRICES) return { kind: 'vector', buffer: fakeBuffer(`w${id}`) };
    const parts = [{ firstRow: 0, rowCount: WIDTH, data: fakeBuffer(`w${id}`), scales: fakeBuffer('scales') }];
    return { kind: 'matrix', format: 'bf16', rows: id < 4 ? WIDTH : WIDTH + id, columns: WIDTH, parts };
  });
  const plan = {
    kvHeadCount: 1,
    headSize: WIDTH,
    buffers: Array.from({ length: BUFFERS }, (_, i) => ({ name: `b${i}`, width: WIDTH })),
    ops,
  } as unknown as Plan;
  return {
    plan,
    maxRows: 1,
    buffers: plan.buffers.map(({ name }) => fakeBuffer(name)),
    weights,
    ropes: [fakeBuffer('rope')],
    kvLayout: { kvHeadCount: 1, headSize: WIDTH, blockSize: 16 } as DeviceModel['kvLayout'],
    kv: [{ keys: fakeBuffer('keys'), values: fakeBuffer('values') }],
  };
}

/** Calls of a step of one row; variants for other steps are left out. */
function callsOf(model: DeviceModel): KernelCall[] {
  const scratch = { logits: fakeLogits, attentionPartials: fakeBuffer('partials') } as ProgramScratch;
  const { rows, outputs } = fastCalls(model, scratch);
  const size = { rowCount: 1, outputCount: 1, positionCount: 1, sequenceCount: 1 };
  return [...rows, ...outputs].filter((call) => !call.workgroups(size).includes(0));
}

function kernelsOf(model: DeviceModel): string[] {
  return callsOf(model).map((call) => call.kernel.name);
}

/** What buffers hold; `kv` is the history of what was written to K/V. */
type Terms = Map<string, string>;

function initialTerms(): Terms {
  return new Map([['kv', ''], ...Array.from({ length: BUFFERS }, (_, i): [string, string] => [`b${i}`, `b${i}`])]);
}

const term = {
  norm: (x: string, weight: string, groups: number) => `norm${groups}(${x},${weight})`,
  linear: (x: string, weight: string, bias: string | undefined) => `${weight}·${x}${bias ? `+${bias}` : ''}`,
  add: (a: string, b: string) => `(${[a, b].sort().join(' + ')})`,
  swiglu: (gate: string, up: string) => `swiglu(${gate},${up})`,
  rope: (x: string) => `rope(${x})`,
  kvWrite: (kv: string, key: string, value: string) => hash(`${kv};${key}:${value}`),
  attention: (query: string, kv: string) => `attention(${query},${kv})`,
};

/** Terms of terms grow without bound; equal ones stay equal. */
function hash(text: string): string {
  if (text.length < 200) return text;
  let [a, b] = [0x811c9dc5, 0x1234567];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x5bd1e995) ^ (b >>> 15);
  }
  return `#${(a >>> 0).toString(16)}${(b >>> 0).toString(16)}`;
}

interface Result {
  readonly logits: string;
  readonly kv: string;
}

function termsOfOps(model: DeviceModel): Result {
  const terms = initialTerms();
  const of = (id: BufferId): string => terms.get(`b${id}`)!;
  const set = (id: BufferId, value: string): unknown => terms.set(`b${id}`, hash(value));
  const matrix = (id: number): string => matrixOf(model, id).parts[0]!.data.label;
  const vector = (id: number): string => vectorOf(model, id).label;
  for (const op of model.plan.ops) {
    switch (op.kind) {
      case 'rmsNorm':
        set(op.output, term.norm(of(op.input), vector(op.weight), op.groupCount ?? 1));
        break;
      case 'linear':
        set(
          op.output,
          term.linear(of(op.input), matrix(op.weight), op.bias === undefined ? undefined : vector(op.bias)),
        );
        break;
      case 'add':
        set(op.output, term.add(of(op.left), of(op.right)));
        break;
      case 'swiglu':
        set(op.output, term.swiglu(of(op.gate), of(op.up)));
        break;
      case 'rope':
        set(op.buffer, term.rope(of(op.buffer)));
        break;
      case 'kvWrite':
        terms.set('kv', term.kvWrite(terms.get('kv')!, of(op.key), of(op.value)));
        break;
      case 'attention':
        set(op.output, term.attention(of(op.query), terms.get('kv')!));
        break;
      case 'logits': {
        const normed = hash(term.norm(of(op.input), vector(op.norm), 1));
        return { logits: hash(term.linear(normed, matrix(op.weight), undefined)), kv: terms.get('kv')! };
      }
      default:
        throw new Error(`${op.kind} is not in these plans`);
    }
  }
  throw new Error('a plan ends with logits');
}

function termsOfCalls(calls: readonly KernelCall[]): Result {
  const terms = initialTerms();
  for (const call of calls) runCall(terms, call);
  return { logits: terms.get('logits')!, kv: terms.get('kv')! };
}

function runCall(terms: Terms, { kernel, buffers, params }: KernelCall): void {
  checkBindings(buffers, kernel.name);
  const label = (name: string): string => buffers[name]!.label;
  // An input that is the output's buffer is not bound by its own name.
  const of = (name: string): string => terms.get((buffers[name] ?? buffers.output)!.label)!;
  const set = (name: string, value: string): unknown => terms.set(label(name), hash(value));
  const [name, ...flags] = kernel.name.split(' ');
  switch (name) {
    case 'linear_fast': {
      const bias = buffers.bias?.label;
      const x = flags.includes('NORM') ? hash(term.norm(of('input'), label('normWeight'), 1)) : of('input');
      const first = hash(term.linear(x, label('data'), bias));
      const second = (): string => hash(term.linear(x, label('secondData'), undefined));
      if (flags.includes('SWIGLU')) set('output', term.swiglu(first, second()));
      else set('output', flags.includes('ADD') ? term.add(of('output'), first) : first);
      if (flags.includes('STORE_TWO')) set('secondOutput', second());
      return;
    }
    case 'rms_norm':
      set('output', term.norm(of('input'), label('weight'), params!.width! / params!.groupWidth!));
      return;
    case 'add':
      set('output', term.add(of('left'), of('right')));
      return;
    case 'swiglu':
      set('output', term.swiglu(of('gate'), of('up')));
      return;
    case 'rope':
      terms.set(ropeBuffer(buffers), hash(term.rope(terms.get(ropeBuffer(buffers))!)));
      return;
    case 'kv_write':
      terms.set('kv', term.kvWrite(terms.get('kv')!, of('key'), of('value')));
      return;
    case 'attention_fast':
      set('output', term.attention(of('query'), terms.get('kv')!));
      return;
    default:
      throw new Error(`the kernel ${kernel.name} is not understood`);
  }
}

/** The one that is rotated, whatever its binding is called. */
function ropeBuffer(buffers: KernelCall['buffers']): string {
  return Object.values(buffers).find(({ label }) => label.startsWith('b'))!.label;
}

/** WebGPU binds no buffer twice where a kernel writes it. */
function checkBindings(buffers: KernelCall['buffers'], kernel: string): void {
  const written = [buffers.output, buffers.secondOutput].filter((buffer) => buffer !== undefined);
  for (const buffer of written) {
    const count = Object.values(buffers).filter((other) => other === buffer).length;
    if (count > 1) throw new Error(`${kernel} has ${buffer.label} bound ${count} times, and writes it`);
  }
}
