import { type Backend, type Batch, OUTPUT_ARGMAX, type Plan, type Step } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { joinBatches, rowsOf } from '../batches.js';
import { PROBE_VOCAB, probeWeights } from './probe-plan.js';

const BLOCK_SIZE = 16;

/** A plan with a part that is measured, and the same without it. */
export interface ProbePair {
  readonly full: Backend;
  readonly empty: Backend;
}

export interface ProbeOptions {
  readonly full: Plan;
  readonly empty: Plan;
  readonly threads: number;
  readonly maxRows: number;
  /** Of all sequences together. */
  readonly positions: number;
}

export async function openProbes({ full, empty, threads, maxRows, positions }: ProbeOptions): Promise<ProbePair> {
  const blockCount = Math.ceil(positions / BLOCK_SIZE) + 1;
  const open = (plan: Plan) =>
    createCpuBackend({ threads })({ plan, weights: probeWeights(), blockSize: BLOCK_SIZE, blockCount, maxRows });
  const first = await open(full);
  try {
    return { full: first, empty: await open(empty) };
  } catch (error) {
    await first.close();
    throw error;
  }
}

export async function closeProbes({ full, empty }: ProbePair): Promise<void> {
  await full.close();
  await empty.close();
}

/** A round goes on at least so long, for a short forward is easily disturbed. */
const ROUND_MS = 20;

/**
 * Seconds that the part takes in one forward, the best of all rounds: with it and without it take turns. Not above 0 where the machine was too
 * busy to tell.
 */
export async function partSeconds(
  { full, empty }: ProbePair,
  schedule: keyof Step,
  batch: Batch,
  rounds: number,
): Promise<number> {
  const best = { full: Number.POSITIVE_INFINITY, empty: Number.POSITIVE_INFINITY };
  for (let round = 0; round < rounds; round++) {
    for (const [name, backend] of [['empty', empty] as const, ['full', full] as const]) {
      const begin = performance.now();
      do {
        const start = performance.now();
        await backend.forward({ [schedule]: batch });
        best[name] = Math.min(best[name], (performance.now() - start) / 1000);
      } while (performance.now() - begin < ROUND_MS);
    }
  }
  return best.full - best.empty;
}

/** So many sequences of so many rows from position `start` on; the last row of each wants its arg-max. */
export function probeBatch(sequences: number, rows: number, start: number): Batch {
  const tokens = Array.from({ length: start + rows }, (_, i) => (i * 7) % PROBE_VOCAB);
  const blocks = Math.ceil((start + rows) / BLOCK_SIZE);
  return joinBatches(
    Array.from({ length: sequences }, (_, s) => ({
      ...rowsOf(tokens, start, rows, 1 + s * blocks, BLOCK_SIZE),
      outputRows: Int32Array.of(rows - 1),
      outputKinds: Uint8Array.of(OUTPUT_ARGMAX),
    })),
  );
}

/** Writes the K/V that a batch of `probeBatch` with this start reads. */
export async function fillContext(
  { full, empty }: ProbePair,
  schedule: keyof Step,
  { sequences, start, rows }: { readonly sequences: number; readonly start: number; readonly rows: number },
): Promise<void> {
  const blocks = Math.ceil((start + rows) / BLOCK_SIZE);
  const tokens = Array.from({ length: start }, (_, i) => (i * 7) % PROBE_VOCAB);
  const chunk = full.info.maxRows;
  for (let s = 0; s < sequences; s++) {
    for (let from = 0; from < start; from += chunk) {
      const batch = rowsOf(tokens, from, Math.min(chunk, start - from), 1 + s * blocks, BLOCK_SIZE);
      const silent = { ...batch, outputRows: new Int32Array(0), outputKinds: new Uint8Array(0) };
      await full.forward({ [schedule]: silent });
      await empty.forward({ [schedule]: silent });
    }
  }
}
