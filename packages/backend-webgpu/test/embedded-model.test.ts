import { readFileSync } from 'node:fs';
import { type Backend, type BackendLoad, type Batch, OUTPUT_LOGITS, type Step, type WeightFormat } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { loadFloat64 } from '@stet/reference/float64';
import { talesFolder } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import { createWebGpuBackend } from '../src/index.js';
import { withoutGpu } from './support/gpu.js';
import { sharedDevice } from './support/shared-device.js';

/** Prompt rows, and tokens decoded after it one by one. */
const PROMPT = 19;
const DECODED = 3;
const BLOCKS = Int32Array.of(3, 1);

interface Golden {
  readonly prompts: readonly [{ readonly prompt_ids: readonly number[]; readonly greedy_ids: readonly number[] }];
}
const [golden] = (JSON.parse(readFileSync(new URL('golden.json', talesFolder), 'utf8')) as Golden).prompts;
const tokens = Int32Array.from([...golden.prompt_ids, ...golden.greedy_ids].slice(0, PROMPT + DECODED));

describe.skipIf(withoutGpu)('the embedded model on WebGPU', () => {
  const gpu = sharedDevice();

  it.each<WeightFormat>(['bf16', 'q8', 'q4'])(
    'has the logits of the reference, to the bit, in %s',
    {
      timeout: 600_000,
    },
    async (format) => {
      const model = await loadModelFolder(talesFolder, { format });
      const load = { plan: model.plan, weights: model.weights, blockSize: 16, blockCount: 4, maxRows: PROMPT };
      const reference = await logitsOf(createReferenceBackend, load);
      const webgpu = await logitsOf(createWebGpuBackend({ device: gpu(), selfTest: false }), load);
      expect(reference.length).toBe((PROMPT + DECODED) * model.plan.vocabSize);
      expectEqualBits(webgpu, reference, `logits in ${format}`);
      await model.close();
    },
  );

  it.each<WeightFormat>(['bf16', 'q8', 'q4'])(
    'has fast logits as near to an f64 forward as f32 comes, in %s',
    { timeout: 600_000 },
    async (format) => {
      const model = await loadModelFolder(talesFolder, { format });
      const load = { plan: model.plan, weights: model.weights, blockSize: 16, blockCount: 4, maxRows: PROMPT };
      const truth = (await loadFloat64(model.plan, model.weights)).logits(tokens);
      const fast = await logitsOf(createWebGpuBackend({ device: gpu(), selfTest: false }), load, 'fast');
      expect(meanDivergence(truth, fast, model.plan.vocabSize)).toBeLessThan(1e-6);
      await model.close();
    },
  );
});

if (withoutGpu !== undefined) it.skip(`the WebGPU backend is not tested here (${withoutGpu})`, () => {});

/** Logits of a prompt fed at once and of tokens fed one by one. */
async function logitsOf(
  factory: (load: BackendLoad) => Promise<Backend>,
  load: BackendLoad,
  schedule: keyof Step = 'canonical',
): Promise<Float32Array> {
  const backend = await factory(load);
  const parts: number[] = [];
  const chunks = [PROMPT, ...new Array<number>(DECODED).fill(1)];
  let position = 0;
  for (const rowCount of chunks) {
    const result = await backend.forward({ [schedule]: rowsFrom(position, rowCount) });
    for (const logit of result[schedule]!.logits) parts.push(logit);
    position += rowCount;
  }
  await backend.close();
  return Float32Array.from(parts);
}

function rowsFrom(position: number, rowCount: number): Batch {
  const rows = Int32Array.from({ length: rowCount }, (_, row) => row);
  return {
    tokens: tokens.slice(position, position + rowCount),
    positions: rows.map((row) => position + row),
    rowStarts: Int32Array.of(0, rowCount),
    blockStarts: Int32Array.of(0),
    blocks: BLOCKS,
    outputRows: rows,
    outputKinds: new Uint8Array(rowCount).fill(OUTPUT_LOGITS),
  };
}

/** Mean over rows of the Kullback-Leibler divergence of the distributions that the logits stand for, in nats. */
function meanDivergence(truth: Float64Array, logits: Float32Array, vocabSize: number): number {
  let sum = 0;
  for (let start = 0; start < truth.length; start += vocabSize) {
    const p = logProbabilities(truth.subarray(start, start + vocabSize));
    const q = logProbabilities(logits.subarray(start, start + vocabSize));
    for (let i = 0; i < vocabSize; i++) sum += Math.exp(p[i]!) * (p[i]! - q[i]!);
  }
  return sum / (truth.length / vocabSize);
}

function logProbabilities(logits: ArrayLike<number>): Float64Array {
  const values = Float64Array.from(logits);
  const largest = values.reduce((a, b) => Math.max(a, b));
  const total = values.reduce((sum, value) => sum + Math.exp(value - largest), 0);
  return values.map((value) => value - largest - Math.log(total));
}
