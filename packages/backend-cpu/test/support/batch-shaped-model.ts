import { assertNever, type OpCase, paddedHeadSize, type WeightData } from '@stet/backend';
import { ATTENTION_CHUNK, attentionScale, BLOCK, bitsOf, fromBits, pow2 } from '@stet/backend/numerics';
import {
  allocateQ15,
  createReferenceOpRunner,
  embed,
  exp2q,
  type Q15,
  quantizeQ15,
  truncateQ16,
} from '@stet/reference';

/**
 * What the batch-shaped kernels compute, in plain TypeScript: every sum in the order that kernels/cpu/linear_batch_shaped.inl.h
 * and attention_batch_shaped.inl.h state, f32 rounded by Math.fround; the rest is the reference, rounded to bf16.
 */
export async function batchShapedModel(input: OpCase): Promise<Float32Array> {
  switch (input.kind) {
    case 'linear':
      return linear(input);
    case 'attention':
      return attention(input);
    case 'embed':
    case 'rmsNorm':
    case 'rope':
    case 'swiglu':
    case 'add':
      return (await reference.run(input)).output.map(toBf16);
    default:
      return assertNever(input);
  }
}

const { fround } = Math;
const reference = createReferenceOpRunner();

/** The nearest bf16, ties to even. */
export function toBf16(x: number): number {
  const bits = bitsOf(x);
  return fromBits((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
}

/** The table of kernels/README.md: most parts of the inputs, by the rows of the batch. */
function linearParts(batchRows: number): number {
  if (batchRows <= 1) return 8;
  if (batchRows <= 8) return 4;
  return batchRows <= 32 ? 2 : 1;
}

function linear({ rows, columns, weight, bias, input }: OpCase & { kind: 'linear' }): Float32Array {
  const rowCount = input.length / columns;
  const partLength = 32 * Math.ceil(Math.ceil(columns / 32) / linearParts(rowCount));
  const x = input.map((value) => (Math.abs(value) < 2 ** -50 ? 0 : toBf16(value)));
  const w = roundedWeights(weight, rows, columns);
  const output = new Float32Array(rowCount * rows);
  for (let row = 0; row < rowCount; row++) {
    for (let o = 0; o < rows; o++) {
      let total = 0;
      for (let start = 0; start < columns; start += partLength) {
        let part = 0;
        const end = Math.min(start + partLength, columns);
        for (let k = start; k < end; k++) part = fround(part + x[row * columns + k] * w[o * columns + k]);
        total = fround(total + part);
      }
      output[row * rows + o] = toBf16(bias ? fround(total + bias[o]) : total);
    }
  }
  return output;
}

function roundedWeights(weight: WeightData, rows: number, columns: number): Float32Array {
  if (weight.kind === 'vector') throw new Error('a linear has a matrix');
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) embed(weight, columns, row, values, row * columns);
  return values.map(toBf16);
}

const PLACES = 64;
const MOST_ROWS = 16;

type Attention = OpCase & { readonly kind: 'attention' };

function attention(input: Attention): Float32Array {
  const output = new Float32Array(input.query.length);
  const runs = runsOf(input.queryPositions);
  const stored = { key: storedOf(input, input.key), value: storedOf(input, input.value) };
  for (const run of runs) attendRun({ ...input, stored }, run, runs.length * input.kvHeadCount, output);
  return output;
}

/** An attention with its keys and values as they are stored: by position, then by K/V head. */
type StoredAttention = Attention & {
  readonly stored: { readonly key: readonly Q15[]; readonly value: readonly Q15[] };
};

function storedOf({ headSize }: Attention, values: Float32Array): Q15[] {
  return Array.from({ length: values.length / headSize }, (_, i) => {
    const stored = allocateQ15(paddedHeadSize(headSize));
    quantizeQ15(values, i * headSize, headSize, stored, 0);
    return stored;
  });
}

interface Run {
  readonly firstRow: number;
  readonly rowCount: number;
}

/** Rows at consecutive positions attend together. */
function runsOf(positions: Int32Array): Run[] {
  const runs: Run[] = [];
  for (let row = 0; row < positions.length; ) {
    const firstRow = row++;
    while (row < positions.length && row - firstRow < MOST_ROWS && positions[row] === positions[row - 1] + 1) row++;
    runs.push({ firstRow, rowCount: row - firstRow });
  }
  return runs;
}

function attendRun(input: StoredAttention, { firstRow, rowCount }: Run, tasks: number, output: Float32Array): void {
  const { headCount, headSize, queryPositions, windowSize = Number.POSITIVE_INFINITY } = input;
  const firstOf = (position: number): number => Math.max(0, position - windowSize + 1);
  const begin = Math.floor(firstOf(queryPositions[firstRow]) / ATTENTION_CHUNK);
  const end = Math.ceil((queryPositions[firstRow + rowCount - 1] + 1) / ATTENTION_CHUNK);
  const parts = Math.min(end - begin, Math.max(1, Math.floor(PLACES / tasks)));
  const partPositions = ATTENTION_CHUNK * Math.ceil((end - begin) / parts);
  for (let row = firstRow; row < firstRow + rowCount; row++) {
    const position = queryPositions[row];
    for (let head = 0; head < headCount; head++) {
      const query = new Query(input, (row * headCount + head) * headSize, head);
      let total = nothing(headSize);
      for (let start = begin * ATTENTION_CHUNK; start <= position; start += partPositions) {
        const from = Math.max(start, firstOf(position));
        const to = Math.min(start + partPositions, position + 1);
        if (from < to) total = joined(total, query.part(from, to));
      }
      for (let i = 0; i < headSize; i++) {
        output[(row * headCount + head) * headSize + i] = toBf16(fround(total.output[i] / total.sum));
      }
    }
  }
}

/** A softmax over some positions; scores are base-2 with 16 bits of fraction. */
interface Partial {
  readonly largest: number;
  readonly sum: number;
  readonly output: readonly number[];
}

function nothing(headSize: number): Partial {
  return { largest: Number.NEGATIVE_INFINITY, sum: 0, output: Array.from({ length: headSize }, () => 0) };
}

function joined(a: Partial, b: Partial): Partial {
  const largest = Math.max(a.largest, b.largest);
  const forA = power(a.largest - largest);
  const forB = power(b.largest - largest);
  const add = (x: number, y: number): number => fround(fround(x * forA) + fround(y * forB));
  return { largest, sum: add(a.sum, b.sum), output: a.output.map((x, i) => add(x, b.output[i])) };
}

/** 2^(difference / 65536), 16 significant bits. */
function power(difference: number): number {
  if (difference < -60 * 65536) return 0;
  return exp2q(difference & 0xffff) * pow2((difference >> 16) - 15);
}

/** One head of one row. */
class Query {
  readonly #input: StoredAttention;
  readonly #kvHead: number;
  readonly #padded: number;
  readonly #query: Q15;

  constructor(input: StoredAttention, offset: number, head: number) {
    this.#input = input;
    this.#kvHead = Math.floor(head / (input.headCount / input.kvHeadCount));
    this.#padded = paddedHeadSize(input.headSize);
    this.#query = allocateQ15(this.#padded);
    quantizeQ15(input.query, offset, input.headSize, this.#query, 0);
  }

  part(from: number, to: number): Partial {
    let part = nothing(this.#input.headSize);
    for (let start = from; start < to; ) {
      const end = Math.min(to, start - (start % ATTENTION_CHUNK) + ATTENTION_CHUNK);
      part = this.#withChunk(part, start, end);
      start = end;
    }
    return part;
  }

  #withChunk(before: Partial, start: number, end: number): Partial {
    const { headSize } = this.#input;
    const scores = Array.from({ length: end - start }, (_, i) => this.#score(start + i));
    const largest = Math.max(before.largest, ...scores);
    const weights = scores.map((score) => power(score - largest));
    const oldFactor = power(before.largest - largest);
    const output = before.output.map((x) => fround(x * oldFactor));
    const sums = new Float32Array(headSize);
    for (const [i, weight] of weights.entries()) {
      const value = this.#at(this.#input.stored.value, start + i);
      for (let d = 0; d < headSize; d++) sums[d] = fround(sums[d] + toBf16(weight) * elementOf(value, d));
    }
    return {
      largest,
      sum: fround(fround(before.sum * oldFactor) + sumOf(weights, start % ATTENTION_CHUNK)),
      output: output.map((x, d) => fround(x + sums[d])),
    };
  }

  /** T of the canonical score. */
  #score(position: number): number {
    const key = this.#at(this.#input.stored.key, position);
    let score = 0;
    for (let block = 0; block < this.#padded; block += BLOCK) {
      let high = 0;
      let mixed = 0;
      for (let i = block; i < block + BLOCK; i++) {
        high += this.#query.high[i] * key.high[i];
        mixed += this.#query.high[i] * key.low[i] + this.#query.low[i] * key.high[i];
      }
      const exponent = this.#query.exponents[block / BLOCK] + key.exponents[block / BLOCK];
      score = fround(score + high * pow2(exponent));
      score = fround(score + mixed * pow2(exponent - 7));
    }
    return truncateQ16(fround(score * attentionScale(this.#input.headSize)));
  }

  #at(stored: readonly Q15[], position: number): Q15 {
    return stored[position * this.#input.kvHeadCount + this.#kvHead];
  }
}

function elementOf({ high, low, exponents }: Q15, i: number): number {
  return (128 * high[i] + low[i]) * pow2(exponents[Math.floor(i / BLOCK)] - 7);
}

/** Sixteen lanes over the places of a chunk, ascending, then folds. */
function sumOf(weights: readonly number[], firstPlace: number): number {
  const lanes = new Float32Array(16);
  for (const [i, weight] of weights.entries()) {
    const lane = (firstPlace + i) % 16;
    lanes[lane] = fround(lanes[lane] + weight);
  }
  for (let half = 8; half >= 1; half /= 2) {
    for (let i = 0; i < half; i++) lanes[i] = fround(lanes[i] + lanes[i + half]);
  }
  return lanes[0];
}
