import type { Op, Plan, WeightFormat, WeightSource, WeightSpec } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import { Random } from './random.js';

export interface RandomModel {
  readonly plan: Plan;
  readonly weights: WeightSource;
}

/**
 * A model of random sizes, formats and wiring, to find what the stages of the Llama family never show: feed-forward
 * beside attention, a swiglu whose inputs come from different stages, buffers that are used again at once, linears of
 * several formats on one input, a rope twice, several layers of K/V written before any is read, norms of single heads,
 * windows of some layers.
 */
export function randomModel(seed: number): RandomModel {
  const random = new Random(seed);
  const builder = new RandomPlan(random);
  return {
    plan: builder.build(),
    weights: { read: async (spec) => encodeWeight(spec, randomValues(spec, seed)) },
  };
}

function randomValues(spec: WeightSpec, seed: number): Float32Array {
  let salt = seed;
  for (const char of spec.name) salt = Math.imul(salt, 31) + char.charCodeAt(0);
  const random = new Random(salt);
  if (spec.kind === 'matrix') {
    // Small queries and keys: a softmax that hangs on one large score would turn any rounding into another answer.
    const scale = /query|key/.test(spec.name) ? 0.3 : 0.9;
    return random.floats(spec.rows * spec.columns, scale / Math.sqrt(spec.columns));
  }
  if (spec.role === 'norm') return Float32Array.from({ length: spec.size }, () => 0.5 + random.unit());
  return random.floats(spec.size, 0.2).map((x) => (Math.abs(x) < 2 ** -60 ? 0 : x));
}

class RandomPlan {
  readonly #random: Random;
  readonly #buffers: { name: string; width: number }[] = [];
  readonly #weights: WeightSpec[] = [];
  readonly #ops: Op[] = [];
  readonly #headSize: number;
  readonly #kvHeadCount: number;
  readonly #headCount: number;
  readonly #hidden: number;
  readonly #ropeCount: number;
  /** Of its matrices; byte formats alone make both schedules one. */
  readonly #formats: readonly WeightFormat[];

  constructor(random: Random) {
    this.#random = random;
    this.#headSize = random.pick([2, 8, 16, 24, 32, 40, 64, 96, 128]);
    this.#kvHeadCount = random.between(1, 3);
    this.#headCount = this.#kvHeadCount * random.between(1, 4);
    this.#hidden = this.#buffer('hidden', random.pick([8, 33, 48, 64, 100, 272]));
    this.#ropeCount = random.between(1, 2);
    this.#formats = random.pick([
      ['bf16', 'bf16', 'q8', 'q4'],
      ['q8', 'q4'],
    ]);
  }

  build(): Plan {
    const random = this.#random;
    const vocabSize = random.pick([17, 64, 130, 700]);
    const width = this.#buffers[this.#hidden].width;
    const embedding = this.#matrix('embedding', vocabSize, width);
    this.#ops.push({ kind: 'embed', table: embedding, output: this.#hidden });
    const layerCount = random.between(1, 3);
    for (let layer = 0; layer < layerCount; layer++) this.#layer(layer);
    const head = random.chance(0.5) ? embedding : this.#matrix('head', vocabSize, width);
    const norm = this.#vector('norm', width, 'norm');
    const bias = random.chance(0.5) ? { bias: this.#vector('head.bias', vocabSize, 'bias') } : {};
    this.#ops.push({ kind: 'logits', input: this.#hidden, norm, epsilon: 1e-5, weight: head, ...bias });
    return {
      architecture: 'random',
      vocabSize,
      contextLength: 200,
      layerCount,
      kvHeadCount: this.#kvHeadCount,
      headSize: this.#headSize,
      buffers: this.#buffers,
      weights: this.#weights,
      ropes: Array.from({ length: this.#ropeCount }, (_, r) => ({
        inverseFrequencies: Array.from({ length: this.#headSize / 2 }, (_, i) => 2 ** (-r - i / 2)),
        attentionFactor: r === 0 ? 1 : 1.125,
      })),
      ops: this.#ops,
    };
  }

  #layer(layer: number): void {
    const random = this.#random;
    const name = (part: string): string => `${layer}.${part}`;
    const width = this.#buffers[this.#hidden].width;
    const normed = this.#norm(name('attention.norm'));
    // Beside or after attention, with the same input or one of its own.
    const beside = random.chance(0.4);
    const feedForward = beside ? this.#feedForward(layer, normed) : undefined;
    const projected = this.#attention(layer, normed, width);
    this.#add(projected);
    this.#add(feedForward ?? this.#feedForward(layer, this.#norm(name('feedForward.norm'))));
  }

  #attention(layer: number, input: number, width: number): number {
    const random = this.#random;
    const name = (part: string): string => `${layer}.${part}`;
    const queryWidth = this.#headCount * this.#headSize;
    const kvWidth = this.#kvHeadCount * this.#headSize;
    const query = this.#linear(name('query'), input, queryWidth);
    const key = this.#linear(name('key'), input, kvWidth);
    const value = this.#linear(name('value'), random.chance(0.8) ? input : this.#hidden, kvWidth);
    if (random.chance(0.4)) this.#headNorm(name('query.norm'), query, this.#headCount);
    if (random.chance(0.4)) this.#headNorm(name('key.norm'), key, this.#kvHeadCount);
    const rope = random.between(0, this.#ropeCount - 1);
    this.#ops.push({ kind: 'rope', buffer: query, headCount: this.#headCount, rope });
    if (random.chance(0.2)) this.#ops.push({ kind: 'rope', buffer: query, headCount: this.#headCount, rope: 0 });
    this.#ops.push({ kind: 'rope', buffer: key, headCount: this.#kvHeadCount, rope });
    this.#ops.push({ kind: 'kvWrite', layer, key, value });
    const output = this.#scratch('attended', queryWidth);
    // Around chunks of 64 and blocks of 16 positions; the last is as long as the context.
    const window = random.chance(0.5) ? { windowSize: random.pick([1, 5, 16, 33, 63, 64, 65, 100, 200]) } : {};
    this.#ops.push({ kind: 'attention', layer, query, headCount: this.#headCount, ...window, output });
    return this.#linear(name('output'), output, width);
  }

  #headNorm(name: string, buffer: number, groupCount: number): void {
    const weight = this.#vector(name, this.#headSize, 'norm');
    this.#ops.push({ kind: 'rmsNorm', input: buffer, weight, epsilon: 1e-5, groupCount, output: buffer });
  }

  #feedForward(layer: number, input: number): number {
    const random = this.#random;
    const name = (part: string): string => `${layer}.${part}`;
    const inner = random.pick([5, 32, 70, 160]);
    const gate = this.#linear(name('gate'), input, inner);
    // From the gate itself: then the two linears cannot be of one stage.
    const up = random.chance(0.7) ? this.#linear(name('up'), input, inner) : this.#linear(name('up'), gate, inner);
    const outputs = [gate, up, this.#buffer('activated', inner)];
    const output = random.pick(outputs);
    this.#ops.push({ kind: 'swiglu', gate, up, output });
    return this.#linear(name('down'), output, this.#buffers[this.#hidden].width);
  }

  #add(term: number): void {
    this.#ops.push({ kind: 'add', left: this.#hidden, right: term, output: this.#hidden });
  }

  #norm(name: string): number {
    const width = this.#buffers[this.#hidden].width;
    const output = this.#scratch('normed', width);
    const weight = this.#vector(name, width, 'norm');
    this.#ops.push({ kind: 'rmsNorm', input: this.#hidden, weight, epsilon: 1e-5, output });
    return output;
  }

  #linear(name: string, input: number, width: number): number {
    const output = this.#scratch(name.split('.')[1], width, input);
    const bias = this.#random.chance(0.3) ? { bias: this.#vector(`${name}.bias`, width, 'bias') } : {};
    this.#ops.push({
      kind: 'linear',
      input,
      weight: this.#matrix(name, width, this.#buffers[input].width),
      output,
      ...bias,
    });
    return output;
  }

  /** A buffer of that name and width from an earlier layer, or a new one. */
  #scratch(name: string, width: number, not?: number): number {
    const known = this.#buffers.findIndex((b, id) => b.name === name && b.width === width && id !== not);
    return known >= 0 && this.#random.chance(0.8) ? known : this.#buffer(name, width);
  }

  #buffer(name: string, width: number): number {
    return this.#buffers.push({ name, width }) - 1;
  }

  #matrix(name: string, rows: number, columns: number): number {
    const format = this.#random.pick(this.#formats);
    return this.#weights.push({ kind: 'matrix', name, rows, columns, format }) - 1;
  }

  #vector(name: string, size: number, role: 'norm' | 'bias'): number {
    return this.#weights.push({ kind: 'vector', name, size, role }) - 1;
  }
}
