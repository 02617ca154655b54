import { existsSync, readFileSync } from 'node:fs';
import { type Plan, type WeightFormat, type WeightSource, weightFormats } from '@stet/backend';
import { encodeBf16, fromBits } from '@stet/backend/numerics';
import { modelVectors } from '@stet/backend/self-test';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { loadFloat64 } from '@stet/reference/float64';
import { talesFolder } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import { batchOf, meanDivergence, relativeError } from './support.js';

const shared = process.env.STET_SHARED ?? new URL('../../../../shared', import.meta.url).pathname;
const tiny = `${shared}/models/tiny`;

interface TinyCase {
  readonly promptIds: number[];
  readonly lastLogits: number[];
  readonly greedyIds: number[];
  readonly gaps: number[];
}

interface Model {
  readonly plan: Plan;
  readonly weights: WeightSource;
}

async function canonicalLogits(model: Model, tokens: number[]): Promise<Float32Array> {
  const blocks = Array.from({ length: Math.ceil(tokens.length / 16) }, (_, i) => i + 1);
  const sizes = { blockSize: 16, blockCount: blocks.length + 1, maxRows: tokens.length };
  const backend = await createReferenceBackend({ plan: model.plan, weights: model.weights, ...sizes });
  const result = await backend.forward({ canonical: batchOf([{ tokens, start: 0, blocks }]) });
  await backend.close();
  return result.canonical!.logits;
}

function argmaxOfRow(logits: ArrayLike<number>, row: number, vocabSize: number): number {
  let best = 0;
  for (let i = 1; i < vocabSize; i++) {
    if (logits[row * vocabSize + i] > logits[row * vocabSize + best]) best = i;
  }
  return best;
}

describe('canonical numerics against a float64 forward of the same weights', () => {
  it.each(modelVectors())('are close on the golden model with $name', async (vector) => {
    const tokens = [...vector.tokens];
    const truth = (await loadFloat64(vector.plan, vector.weights)).logits(tokens);
    const logits = await canonicalLogits(vector, tokens);
    expect(relativeError(truth, logits)).toBeLessThan(1e-3);
    expect(meanDivergence(truth, logits, vector.plan.vocabSize)).toBeLessThan(1e-6);
  });

  describe('on the embedded model', () => {
    const golden = JSON.parse(readFileSync(new URL('golden.json', talesFolder), 'utf8'));
    const { prompt_ids, greedy_ids, top2_gap } = golden.prompts[0];
    const tokens: number[] = [...prompt_ids, ...greedy_ids];
    const passes = new Map<WeightFormat, Promise<Pass>>();

    interface Pass {
      readonly truth: Float64Array;
      readonly logits: Float32Array;
      readonly vocabSize: number;
    }

    /** Both forwards of the tokens in a format, made once. */
    function passOf(format: WeightFormat): Promise<Pass> {
      const pass = passes.get(format) ?? makePass(format);
      passes.set(format, pass);
      return pass;
    }

    async function makePass(format: WeightFormat): Promise<Pass> {
      const model = await loadModelFolder(talesFolder, { format, tokenizer: 'none' });
      const truth = (await loadFloat64(model.plan, model.weights)).logits(tokens);
      const logits = await canonicalLogits(model, tokens);
      await model.close();
      return { truth, logits, vocabSize: model.plan.vocabSize };
    }

    it.each(weightFormats)('have a small error and divergence in %s', async (format) => {
      const { truth, logits, vocabSize } = await passOf(format);
      const error = relativeError(truth, logits);
      const divergence = meanDivergence(truth, logits, vocabSize);
      console.info(
        `tales, ${format}: relative error ${error.toExponential(2)}, mean KL ${divergence.toExponential(2)}`,
      );
      expect(error).toBeLessThan(1e-3);
      expect(divergence).toBeLessThan(1e-6);
    });

    it('choose the recorded greedy tokens in bf16 wherever the gap exceeds 0.05', async () => {
      const { logits, vocabSize } = await passOf('bf16');
      let compared = 0;
      for (const [i, id] of (greedy_ids as number[]).entries()) {
        if (top2_gap[i] <= 0.05) continue;
        expect(argmaxOfRow(logits, prompt_ids.length - 1 + i, vocabSize)).toBe(id);
        compared++;
      }
      expect(compared).toBeGreaterThan(40);
    });

    it.each([
      ['q8', 5e-3],
      ['q4', 5e-2],
    ] as const)('lose little to the weights of %s: its truth is near the truth of bf16', async (format, limit) => {
      const { truth, vocabSize } = await passOf('bf16');
      const divergence = meanDivergence(truth, (await passOf(format)).truth, vocabSize);
      console.info(`tales, ${format} weights: mean KL ${divergence.toExponential(2)}`);
      expect(divergence).toBeLessThan(limit);
    });
  });
});

describe.skipIf(!existsSync(tiny))('small models of transformers (skipped where shared/models is absent)', () => {
  const folders = [
    'llama',
    'llama-mha-odd',
    'llama-linear-rope',
    'llama-yarn',
    'llama3-rope-bias',
    'mistral-sliding',
    'qwen2',
    'qwen3',
    'smollm3',
    'phi3',
    'olmo2',
  ];

  it.each(folders)('%s: float64 gives the recorded logits, canonical bf16 the recorded tokens', async (folder) => {
    const golden = JSON.parse(readFileSync(`${tiny}/${folder}/golden.json`, 'utf8'));
    const loaded = await loadModelFolder(`${tiny}/${folder}`, { format: 'bf16', tokenizer: 'none' });
    const model: Model = { plan: recordedPlan(loaded.plan), weights: loaded.weights };
    const { vocabSize } = model.plan;
    const float64 = await loadFloat64(model.plan, model.weights);
    for (const { promptIds, lastLogits, greedyIds, gaps } of golden.cases as TinyCase[]) {
      const tokens = [...promptIds, ...greedyIds];
      const truth = float64.logits(tokens);
      const last = truth.subarray((promptIds.length - 1) * vocabSize, promptIds.length * vocabSize);
      const largest = Math.max(...lastLogits.map(Math.abs));
      // The record has six decimals.
      const worst = Math.max(...lastLogits.map((logit, i) => Math.abs(last[i] - logit)));
      expect(worst).toBeLessThan(1e-6 * largest);
      const logits = await canonicalLogits(model, tokens);
      expect(relativeError(truth, logits)).toBeLessThan(1e-3);
      for (const [i, id] of greedyIds.entries()) {
        if (gaps[i] > 0.02) expect(argmaxOfRow(logits, promptIds.length - 1 + i, vocabSize)).toBe(id);
      }
    }
    await loaded.close();
  });

  /** The record was made with inverse frequencies that had been cast to bf16 with the weights: the plan is given the same. */
  function recordedPlan(plan: Plan): Plan {
    const ropes = plan.ropes.map((rope) => {
      const bits = encodeBf16('inverse frequencies', Float32Array.from(rope.inverseFrequencies));
      return { ...rope, inverseFrequencies: Array.from(bits, (b) => fromBits(b << 16)) };
    });
    return { ...plan, ropes };
  }
});
