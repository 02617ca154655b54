import { readFileSync } from 'node:fs';
import type { Backend, Step } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { loadFloat64 } from '@stet/reference/float64';
import { openTales, rowsOf } from './model.js';
import type { BenchResult } from './result.js';

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

/** Mean KL(truth ‖ other), perplexity of the text under `other`, and how often both have the same best token. */
function compare(truth: ArrayLike<number>, other: ArrayLike<number>, tokens: readonly number[], vocabSize: number) {
  let divergence = 0;
  let surprise = 0;
  let agreements = 0;
  const count = tokens.length - 1;
  for (let row = 0; row < count; row++) {
    const p = logSoftmax(truth, row * vocabSize, vocabSize);
    const q = logSoftmax(other, row * vocabSize, vocabSize);
    for (let id = 0; id < vocabSize; id++) divergence += Math.exp(p[id]!) * (p[id]! - q[id]!);
    surprise -= q[tokens[row + 1]!]!;
    if (best(p) === best(q)) agreements++;
  }
  return {
    'mean KL': Number((divergence / count).toExponential(2)),
    perplexity: Number(Math.exp(surprise / count).toFixed(3)),
    'top-1 %': Number(((100 * agreements) / count).toFixed(2)),
  };
}

function logSoftmax(logits: ArrayLike<number>, start: number, size: number): Float64Array {
  const values = Float64Array.from({ length: size }, (_, id) => logits[start + id]!);
  const largest = values.reduce((a, b) => Math.max(a, b));
  const normalizer = largest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - largest), 0));
  return values.map((value) => value - normalizer);
}

function best(values: Float64Array): number {
  return values.reduce((top, value, id) => (value > values[top]! ? id : top), 0);
}
