import type { Backend, Batch, Step } from '@stet/backend';
import { openBackends } from './backends.js';
import { joinBatches, rowsOf } from './batches.js';
import { openTales } from './model.js';
import type { BenchOptions } from './options.js';
import type { BenchResult } from './result.js';
import { median, rounded } from './stats.js';

const BLOCK_SIZE = 16;
const CONTEXT = 128;
const ROUNDS = 15;

/** Tokens per second of one forward, fast and canonical in turn, so that a noisy machine disturbs both alike. */
export async function measureForward({
  backend: name = 'cpu',
  rounds = ROUNDS,
}: Partial<BenchOptions>): Promise<BenchResult> {
  const source = await openBackends(name);
  const { model, fingerprint } = await openTales();
  const blocks = (CONTEXT + 1) / BLOCK_SIZE + 1;
  const blockCount = Math.ceil(blocks) * 64 + 40;
  const backend = await source.create({
    plan: model.plan,
    weights: model.weights,
    blockSize: BLOCK_SIZE,
    blockCount,
    maxRows: 512,
  });
  const tokens = Array.from({ length: 520 }, (_, i) => (i * 37 + 11) % model.plan.vocabSize);
  const cases: [string, Batch][] = [1, 4, 16, 64].map((count) => [
    `${count} sequences, 1 row each`,
    decodeBatch(tokens, count, Math.ceil(blocks)),
  ]);
  cases.push(['prefill of 512 rows', lastRowOnly(rowsOf(tokens, 0, 512, 1, BLOCK_SIZE))]);
  for (let s = 0; s < 64; s++)
    await backend.forward({
      canonical: lastRowOnly(rowsOf(tokens, 0, CONTEXT, 1 + s * Math.ceil(blocks), BLOCK_SIZE)),
    });
  const rows = [];
  for (const [name, batch] of cases) rows.push({ case: name, ...(await interleave(backend, batch, rounds)) });
  const { device } = backend.info;
  await backend.close();
  source.close();
  await model.close();
  return {
    workload: `one forward, context ${CONTEXT}, median of ${rounds} interleaved rounds`,
    section: name === 'cpu' ? 'forward' : `forward-${name}`,
    model: model.name,
    fingerprint,
    device,
    rows,
  };
}

function decodeBatch(tokens: readonly number[], count: number, blocks: number): Batch {
  return joinBatches(Array.from({ length: count }, (_, s) => rowsOf(tokens, CONTEXT, 1, 1 + s * blocks, BLOCK_SIZE)));
}

function lastRowOnly(batch: Batch): Batch {
  return { ...batch, outputRows: Int32Array.of(batch.tokens.length - 1), outputKinds: Uint8Array.of(0) };
}

async function interleave(backend: Backend, batch: Batch, rounds: number) {
  const times: Record<keyof Step, number[]> = { fast: [], canonical: [] };
  const repeats = Math.max(1, Math.round(32 / batch.tokens.length));
  for (let round = 0; round < rounds; round++) {
    for (const schedule of ['fast', 'canonical'] as const) {
      const start = performance.now();
      for (let i = 0; i < repeats; i++) await backend.forward({ [schedule]: batch });
      times[schedule].push((performance.now() - start) / repeats);
    }
  }
  const perSecond = (ms: number) => Math.round((batch.tokens.length / ms) * 1000);
  const [fast, canonical] = [median(times.fast), median(times.canonical)];
  return {
    'fast tokens/s': perSecond(fast),
    'canonical tokens/s': perSecond(canonical),
    'fast / canonical': rounded(canonical / fast, 2),
  };
}
