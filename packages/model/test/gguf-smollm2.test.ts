import type { WeightSpec } from '@stet/backend';
import { type LoadedModel, parseModelConfig } from '@stet/model';
import { nodeHasher, openFolder } from '@stet/model/node';
import { runOp } from '@stet/reference';
import { loadFloat64 } from '@stet/reference/float64';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadGguf } from '../src/gguf/load-gguf.js';
import { decoderPlan } from '../src/plan/decoder-plan.js';
import { hasSharedModels, needsSharedModels, readSharedJson, sharedModel } from './support/shared-models.js';

interface GoldenCase {
  readonly prompt: string;
  readonly promptIds: readonly number[];
  readonly outputIds: readonly number[];
  readonly gaps: readonly number[];
  readonly top5Logprobs: readonly (readonly [id: number, logProbability: number][])[];
}

const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
/** Output tokens that are checked: a float64 forward in JavaScript takes a second for each position. */
const STEPS = 3;
/** Largest error of a log-probability. The golden forward has the values of the file, this one rounds them to bf16. */
const TOLERANCE = 0.04;

/** config.json of the released SmolLM2-135M-Instruct, what of it is computed. */
const releasedConfig = {
  architectures: ['LlamaForCausalLM'],
  attention_bias: false,
  hidden_act: 'silu',
  hidden_size: 576,
  intermediate_size: 1536,
  max_position_embeddings: 8192,
  mlp_bias: false,
  model_type: 'llama',
  num_attention_heads: 9,
  num_hidden_layers: 30,
  num_key_value_heads: 3,
  rms_norm_eps: 1e-5,
  rope_scaling: null,
  rope_theta: 100000,
  tie_word_embeddings: true,
  torch_dtype: 'bfloat16',
  vocab_size: 49152,
};

describe.skipIf(!hasSharedModels)(`SmolLM2 in GGUF${needsSharedModels}`, () => {
  let model: LoadedModel;
  let cases: GoldenCase[];
  beforeAll(async () => {
    model = await loadGguf(await openFolder(sharedModel('smollm2')), FILE, {
      createHasher: nodeHasher,
      format: 'bf16',
    });
    cases = readSharedJson<{ cases: GoldenCase[] }>('smollm2', 'golden.json').cases;
  });
  afterAll(() => model?.close());

  it('has the plan of the released checkpoint', () => {
    expect(model.plan).toEqual(decoderPlan(parseModelConfig(releasedConfig), 'bf16'));
    expect(model).toMatchObject({ parameterCount: 134_515_008, contextLength: 8192, bosId: 1 });
    expect(model.eosIds).toContain(2);
  });

  it('keeps the integers of its 210 matrices of four bits, and has eight in its embedding', async () => {
    const options = { createHasher: nodeHasher, tokenizer: 'none', format: 'auto' } as const;
    const auto = await loadGguf(await openFolder(sharedModel('smollm2')), FILE, options);
    expect(auto.formats).toEqual([
      { format: 'q4', matrixCount: 210, why: 'Q4_1 keeps its integers' },
      { format: 'q8', matrixCount: 1, why: 'Q8_0 is rounded to eight bits' },
    ]);
    const rowsOf = async ({ plan, weights }: LoadedModel): Promise<Float32Array> => {
      const spec = plan.weights.find(({ name }) => name.endsWith('0.mlp.down_proj.weight'))!;
      const { rows, columns } = spec as WeightSpec & { kind: 'matrix' };
      const tokens = Int32Array.from({ length: rows }, (_, row) => row);
      return runOp({ kind: 'embed', rows, columns, table: await weights.read(spec), tokens });
    };
    const [stored, values] = [await rowsOf(auto), await rowsOf(model)];
    let difference = 0;
    let size = 0;
    for (let i = 0; i < values.length; i++) {
      difference += (stored[i]! - values[i]!) ** 2;
      size += values[i]! ** 2;
    }
    // Both are the values of the file: one with 8 bits of each, the other with 8 bits of its scale and minimum.
    expect(Math.sqrt(difference / size)).toBeLessThan(0.005);
    await auto.close();
  });

  it('turns prompts into the ids of the golden ones', () => {
    expect(cases.length).toBeGreaterThan(3);
    for (const { prompt, promptIds } of cases) {
      expect(model.tokenizer!.encode(prompt, { addSpecialTokens: false })).toEqual(promptIds);
    }
  });

  it(`gives the golden log-probabilities and the first ${STEPS} greedy tokens of a prompt`, {
    timeout: 120_000,
  }, async () => {
    const exact = await loadFloat64(model.plan, model.weights);
    const { vocabSize } = model.plan;
    const { promptIds, outputIds, gaps, top5Logprobs } = cases[0]!;
    expect(promptIds.length).toBeLessThan(10);
    const logits = exact.logits([...promptIds, ...outputIds.slice(0, STEPS - 1)]);
    let worst = 0;
    for (let step = 0; step < STEPS; step++) {
      const start = (promptIds.length - 1 + step) * vocabSize;
      const row = logits.subarray(start, start + vocabSize);
      const largest = row.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY);
      const total = largest + Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
      for (const [id, logProbability] of top5Logprobs[step]!) {
        worst = Math.max(worst, Math.abs(row[id]! - total - logProbability));
      }
      if (gaps[step]! > 2 * TOLERANCE) expect(row.indexOf(largest), `step ${step}`).toBe(outputIds[step]);
    }
    expect(worst).toBeLessThan(TOLERANCE);
    // Not the very same: that would mean that the golden weights were rounded too.
    expect(worst).toBeGreaterThan(0);
  });
});
