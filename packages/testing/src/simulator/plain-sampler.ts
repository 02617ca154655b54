import { exp, ln } from '@stet/backend/numerics';
import type { SamplingParams, TokenLogprob } from '@stet/scheduler';
import { argmaxOf } from '../fake/toy-model.js';

/**
 * The definition of sampling and of log-probabilities, spelled out: sort everything, prune nothing. It shares no code
 * with the scheduler's sampler but `exp` and `ln`, whose bits are part of the definition.
 */
export function plainSample(
  logits: Float32Array,
  params: SamplingParams,
  seed: number,
  outputIndex: number,
  prompt: Iterable<number>,
  output: readonly number[],
): number {
  const adjusted = adjust(logits, params, prompt, output);
  if (params.temperature === 0) return adjusted.indexOf(Math.max(...adjusted));
  const scaled = adjusted.map((value) => value / params.temperature);
  const largest = Math.max(...scaled);
  const rows = filtered(scaled, largest, params);
  const scored = rows.map(({ id, value }) => ({ id, score: value + gumbel(seed, outputIndex, id) }));
  return scored.sort((a, b) => b.score - a.score || a.id - b.id)[0]!.id;
}

/** Natural log-probabilities of raw logits: of `token` and of the `topCount` likeliest. */
export function plainLogprob(logits: Float32Array, token: number, topCount: number): TokenLogprob {
  const largest = logits[argmaxOf(logits)]!;
  let sum = 0;
  for (const logit of logits) sum += exp(logit - largest);
  const normalizer = largest + ln(sum);
  const ranked = Array.from(logits, (logit, id) => ({ token: id, logprob: logit - normalizer }));
  ranked.sort((a, b) => logits[b.token]! - logits[a.token]! || a.token - b.token);
  return { token, logprob: logits[token]! - normalizer, top: ranked.slice(0, topCount) };
}

interface Row {
  readonly id: number;
  readonly value: number;
}

/** Repetition penalty over prompt and output, frequency and presence penalties over the output, bias: in this order. */
function adjust(
  logits: Float32Array,
  params: SamplingParams,
  prompt: Iterable<number>,
  output: readonly number[],
): number[] {
  const values = Array.from(logits);
  const { repetitionPenalty } = params;
  if (repetitionPenalty !== 1)
    for (const id of new Set([...prompt, ...output]))
      values[id] = values[id]! * (values[id]! > 0 ? 1 / repetitionPenalty : repetitionPenalty);
  for (const id of new Set(output)) {
    const count = output.filter((token) => token === id).length;
    values[id]! -= params.frequencyPenalty * count + params.presencePenalty;
  }
  for (const [id, bias] of params.logitBias) values[id]! += bias;
  return values;
}

function filtered(scaled: readonly number[], largest: number, params: SamplingParams): Row[] {
  const byId = (a: Row, b: Row) => a.id - b.id;
  const byRank = (a: Row, b: Row) => b.value - a.value || a.id - b.id;
  let rows = scaled.map((value, id) => ({ id, value })).filter(({ value }) => value >= largest - 64);
  if (params.topK > 0) rows = rows.sort(byRank).slice(0, params.topK);
  if (params.topP < 1) {
    const total = rows.sort(byId).reduce((sum, { value }) => sum + exp(value - largest), 0);
    rows.sort(byRank);
    let reached = 0;
    const last = rows.findIndex(({ value }) => {
      reached += exp(value - largest);
      return reached >= params.topP * total;
    });
    if (last >= 0) rows = rows.slice(0, last + 1);
  }
  if (params.minP > 0) rows = rows.filter(({ value }) => value >= largest + ln(params.minP));
  return rows;
}

function gumbel(seed: number, outputIndex: number, token: number): number {
  const key = BigInt(seed);
  const counter = [BigInt(outputIndex), 0n, BigInt(token >> 2), 0n];
  const word = philox(counter, key & MASK, key >> 32n)[token % 4]!;
  return -ln(-ln((Number(word) + 0.5) * 2 ** -32));
}

const MASK = 0xffffffffn;

/** Philox4x32-10 in whole 64-bit products. */
function philox(counter: readonly bigint[], key0: bigint, key1: bigint): bigint[] {
  let [c0, c1, c2, c3] = counter as [bigint, bigint, bigint, bigint];
  for (let round = 0n; round < 10n; round++) {
    const p0 = 0xd2511f53n * c0;
    const p1 = 0xcd9e8d57n * c2;
    const k0 = (key0 + round * 0x9e3779b9n) & MASK;
    const k1 = (key1 + round * 0xbb67ae85n) & MASK;
    [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, p1 & MASK, (p0 >> 32n) ^ c3 ^ k1, p0 & MASK];
  }
  return [c0, c1, c2, c3];
}
