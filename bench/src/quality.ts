import { readFileSync } from 'node:fs';
import type { Backend, Step } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { loadFloat64 } from '@stet/reference/float64';
import { rowsOf } from './batches.js';
import { compareLogits } from './divergence.js';
import { openTales } from './model.js';
import type { BenchResult } from './result.js';
import { rounded } from './stats.js';

const BLOCK_SIZE = 16;
/** Rows at a time: fast kernels are chosen by batch shape, so each shape is measured. */
const SHAPES = [1, 4, 16, 128];

/** How far each schedule is from an f64 forward of the same weights, over a fixed text. */
export async function measureQuality(): Promise<BenchResult> {
  const { model, fingerprint } = await openTales();
  const text = readFileSync(new URL('../texts/story.txt', import.meta.url), 'utf8');
  const tokens = model.tokenizer!.encode(text, { addSpecialTokens: true });
  const truth = (await loadFloat64(model.plan, model.weights)).logits(tokens);
  const blockCount = Math.ceil(tokens.length / BLOCK_SIZE) + 1;
  const backend = await createCpuBackend()({
    plan: model.plan,
    weights: model.weights,
    blockSize: BLOCK_SIZE,
    blockCount,
    maxRows: 128,
  });
  const rows = [
    { schedule: 'f64', 'rows at a time': tokens.length, ...compare(truth, truth, tokens, model.plan.vocabSize) },
  ];
  for (const schedule of ['canonical', 'fast'] as const) {
    for (const shape of SHAPES) {
      const logits = await forwardAll(backend, schedule, tokens, shape);
      rows.push({ schedule, 'rows at a time': shape, ...compare(truth, logits, tokens, model.plan.vocabSize) });
    }
  }
  const { device } = backend.info;
  await backend.close();
  await model.close();
  return {
    workload: `${tokens.length} tokens of texts/story.txt, teacher forced`,
    model: model.name,
    fingerprint,
    device,
    rows,
  };
}

async function forwardAll(
  backend: Backend,
  schedule: keyof Step,
  tokens: readonly number[],
  shape: number,
): Promise<Float32Array> {
  const logits = new Float32Array(tokens.length * backend.info.vocabSize);
  for (let start = 0; start < tokens.length; start += shape) {
    const rowCount = Math.min(shape, tokens.length - start);
    const result = await backend.forward({ [schedule]: rowsOf(tokens, start, rowCount, 1, BLOCK_SIZE) });
    logits.set(result[schedule]!.logits, start * backend.info.vocabSize);
  }
  return logits;
}

/** One row of the table. */
function compare(truth: ArrayLike<number>, other: ArrayLike<number>, tokens: readonly number[], vocabSize: number) {
  const { meanKl, perplexity, top1 } = compareLogits(truth, other, tokens, vocabSize);
  return {
    'mean KL': Number(meanKl.toExponential(2)),
    perplexity: rounded(perplexity, 3),
    'top-1 %': rounded(100 * top1, 2),
  };
}
