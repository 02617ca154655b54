import { exp, ln } from '../numerics/index.js';
import type { Draw, Drawn } from '../sampling.js';

interface Candidate {
  readonly id: number;
  readonly value: number;
}

/** docs/SAMPLING.md, word for word: everything is sorted, summed and looked at. */
export function plainDraw({ logits, adjusted, params, seed, outputIndex, topLogprobs }: Draw): Drawn {
  const x = Array.from(logits);
  adjusted?.ids.forEach((id, i) => {
    x[id] = adjusted.values[i]!;
  });
  const best = x.reduce((top, value, id) => (value > x[top]! ? id : top), 0);
  const token =
    params.temperature === 0
      ? best
      : winnerOf(
          remaining(
            x.map((value, id) => ({ id, value: value / params.temperature })),
            best,
            params,
          ),
          seed,
          outputIndex,
        );
  return topLogprobs === undefined ? { token } : { token, logprob: plainLogprob(logits, token, topLogprobs) };
}

/** Steps 5 to 8. */
function remaining(all: readonly Candidate[], best: number, { topK, topP, minP }: Draw['params']): Candidate[] {
  const top = all[best]!.value;
  let rows = all.filter(({ value }) => value >= top - 64).sort((a, b) => b.value - a.value || a.id - b.id);
  if (topK > 0) rows = rows.slice(0, topK);
  if (topP < 1) {
    const total = [...rows].sort((a, b) => a.id - b.id).reduce((sum, { value }) => sum + exp(value - top), 0);
    let sum = 0;
    const last = rows.findIndex(({ value }) => {
      sum += exp(value - top);
      return sum >= topP * total;
    });
    if (last >= 0) rows = rows.slice(0, last + 1);
  }
  return minP > 0 ? rows.filter(({ value }) => value >= top + ln(minP)) : rows;
}

function winnerOf(rows: readonly Candidate[], seed: number, outputIndex: number): number {
  const scored = rows.map(({ id, value }) => ({ id, score: value + noise(seed, outputIndex, id) }));
  return scored.sort((a, b) => b.score - a.score || a.id - b.id)[0]!.id;
}

function noise(seed: number, outputIndex: number, token: number): number {
  const word = plainPhilox([BigInt(outputIndex), 0n, BigInt(token >>> 2), 0n], BigInt(seed))[token & 3]!;
  return -ln(-ln((Number(word) + 0.5) * 2 ** -32));
}

/** Philox4x32-10 in whole numbers. */
function plainPhilox(counter: readonly bigint[], key: bigint): bigint[] {
  const mask = 0xffffffffn;
  let [c0, c1, c2, c3] = counter as [bigint, bigint, bigint, bigint];
  let k0 = key & mask;
  let k1 = key >> 32n;
  for (let round = 0; round < 10; round++) {
    const a = 0xd2511f53n * c0;
    const b = 0xcd9e8d57n * c2;
    [c0, c1, c2, c3] = [(b >> 32n) ^ c1 ^ k0, b & mask, (a >> 32n) ^ c3 ^ k1, a & mask];
    k0 = (k0 + 0x9e3779b9n) & mask;
    k1 = (k1 + 0xbb67ae85n) & mask;
  }
  return [c0, c1, c2, c3];
}

function plainLogprob(logits: Float32Array, token: number, topCount: number): NonNullable<Drawn['logprob']> {
  const rows = Array.from(logits, (logit, id) => ({ id, logit }));
  const ranked = rows.toSorted((a, b) => b.logit - a.logit || a.id - b.id);
  const top = ranked[0]!.logit;
  const normalizer = top + ln(rows.reduce((sum, { logit }) => sum + exp(logit - top), 0));
  const of = (id: number) => ({ token: id, logprob: logits[id]! - normalizer });
  return { ...of(token), top: ranked.slice(0, topCount).map(({ id }) => of(id)) };
}
