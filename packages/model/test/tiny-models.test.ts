import { readdirSync, readFileSync } from 'node:fs';
import { type Batch, checkPlan, OUTPUT_LOGITS, type Plan } from '@stet/backend';
import { encodeBf16, fromBits } from '@stet/backend/numerics';
import { type LoadedModel, loadModel, memorySource, openCheckpoint } from '@stet/model';
import { loadModelFolder, openFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { loadFloat64 } from '@stet/reference/float64';
import { describe, expect, it } from 'vitest';
import { hasSharedModels, needsSharedModels, readSharedJson, sharedModel } from './support/shared-models.js';
import { safetensors } from './support/small-model.js';

interface GoldenCase {
  readonly promptIds: number[];
  readonly lastLogits: number[];
  readonly positions: { readonly position: number; readonly top5: [id: number, logit: number][] }[];
  readonly greedyIds: number[];
  readonly gaps: number[];
}

/** An exact forward against the golden one, whose norms and ropes were computed in f32: relative to the largest logit. */
const FLOAT64_TOLERANCE = 1e-5;
/** Canonical numerics with bf16 weights, the same: rope tables of 12 bits, activations of 16, K/V of 15. */
const CANONICAL_TOLERANCE = 1e-3;

const names = [
  'llama',
  'llama3-rope-bias',
  'llama-linear-rope',
  'llama-yarn',
  'llama-mha-odd',
  'mistral-sliding',
  'qwen2',
  'qwen3',
  'smollm3',
  'phi3',
  'olmo2',
];
const goldenCases = (name: string) => readSharedJson<{ cases: GoldenCase[] }>('tiny', name, 'golden.json').cases;
const loadTiny = (name: string): Promise<LoadedModel> =>
  loadModelFolder(sharedModel('tiny', name), { tokenizer: 'none' });

/**
 * The golden models were cast to bf16 as a whole, with the frequencies of their ropes: the golden logits are those of
 * rounded frequencies. (Checkpoints are loaded with exact ones, by transformers too.)
 */
function goldenPlan(plan: Plan): Plan {
  const ropes = plan.ropes.map((rope) => ({
    ...rope,
    inverseFrequencies: [...encodeBf16('rope', Float32Array.from(rope.inverseFrequencies))].map((bits) =>
      fromBits(bits << 16),
    ),
  }));
  return { ...plan, ropes };
}

const largest = (logits: ArrayLike<number>): number =>
  Array.from(logits).reduce((most, logit) => Math.max(most, Math.abs(logit)), 0);
const argmax = (logits: ArrayLike<number>): number =>
  Array.from(logits).reduce((best, logit, id, all) => (logit > all[best]! ? id : best), 0);

function largestError(logits: ArrayLike<number>, golden: readonly number[]): number {
  expect(logits.length).toBe(golden.length);
  return golden.reduce((most, logit, id) => Math.max(most, Math.abs(logits[id]! - logit)), 0) / largest(golden);
}

describe.skipIf(!hasSharedModels)(`tiny models${needsSharedModels}`, () => {
  it.each(names)('%s gives the logits and the greedy ids of transformers in float64', async (name) => {
    const model = await loadTiny(name);
    checkPlan(model.plan);
    const exact = await loadFloat64(goldenPlan(model.plan), model.weights);
    const { vocabSize } = model.plan;
    const cases = goldenCases(name);
    expect(cases.map(({ promptIds }) => promptIds.length)).toEqual([1, 7, 40]);
    for (const { promptIds, lastLogits, positions, greedyIds, gaps } of cases) {
      const logits = exact.logits([...promptIds, ...greedyIds.slice(0, -1)]);
      const at = (position: number) => logits.subarray(position * vocabSize, (position + 1) * vocabSize);
      const tolerance = FLOAT64_TOLERANCE * largest(lastLogits);
      expect(largestError(at(promptIds.length - 1), lastLogits)).toBeLessThan(FLOAT64_TOLERANCE);
      for (const { position, top5 } of positions) {
        for (const [id, logit] of top5) expect(Math.abs(at(position)[id]! - logit)).toBeLessThan(tolerance);
      }
      let clear = 0;
      for (const [step, id] of greedyIds.entries()) {
        if (gaps[step]! <= 2 * tolerance) continue;
        clear++;
        expect(argmax(at(promptIds.length - 1 + step)), `step ${step}`).toBe(id);
      }
      expect(clear).toBeGreaterThan(20);
    }
    await model.close();
  });

  it.each(names)('%s gives logits close to those in canonical numerics', async (name) => {
    const model = await loadTiny(name);
    const cases = goldenCases(name);
    const backend = await createReferenceBackend({
      plan: goldenPlan(model.plan),
      weights: model.weights,
      blockSize: 16,
      blockCount: 8,
      maxRows: 64,
    });
    for (const { promptIds, lastLogits } of cases) {
      const { canonical } = await backend.forward({ canonical: prefill(promptIds) });
      expect(largestError(canonical!.logits, lastLogits)).toBeLessThan(CANONICAL_TOLERANCE);
    }
    await backend.close();
    await model.close();
  });

  it('are all that are there, but those of unsupported architectures', () => {
    const folders = readdirSync(sharedModel('tiny'), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => name).sort()).toEqual([...names, 'gemma3', 'granite'].sort());
  });

  it.each(['gemma3', 'granite'])('%s is refused by the name of its architecture', async (name) => {
    const { architectures } = readSharedJson<{ architectures: [string] }>('tiny', name, 'config.json');
    await expect(loadTiny(name)).rejects.toMatchObject({
      code: 'STET_ERR_UNKNOWN_ARCHITECTURE',
      message: expect.stringContaining(`"${architectures[0]}"; supported are LlamaForCausalLM, `),
    });
  });

  it('says the ids that begin and end a text', async () => {
    const model = await loadTiny('llama');
    expect(model).toMatchObject({ bosId: 0, eosIds: [1], contextLength: 256, name: 'llama' });
    await model.close();
  });

  it('in six shards is the model that it is in one file', async () => {
    const sharded = await loadTiny('llama');
    const folder = await openFolder(sharedModel('tiny', 'llama'));
    const { tensors, files } = await openCheckpoint(folder, new Set(await folder.list()));
    expect(files).toHaveLength(7);
    const data = await Promise.all(
      [...tensors.values()].map(async ({ name, type, shape, file, start, end }) => ({
        name,
        dtype: type.name,
        shape,
        bytes: await folder.read(file, start, end),
      })),
    );
    await folder.close();
    const config = new Uint8Array(readFileSync(sharedModel('tiny', 'llama', 'config.json')));
    const single = await loadModel(memorySource({ 'config.json': config, 'model.safetensors': safetensors(data) }), {
      tokenizer: 'none',
    });
    expect(single.plan).toEqual(sharded.plan);
    for (const spec of sharded.plan.weights) {
      const [one, other] = [await single.weights.read(spec), await sharded.weights.read(spec)];
      expect(one, spec.name).toEqual(other);
    }
    expect(single.digest).not.toBe(sharded.digest);
    await sharded.close();
  });
});

function prefill(tokens: readonly number[]): Batch {
  const blockCount = Math.ceil(tokens.length / 16);
  return {
    tokens: Int32Array.from(tokens),
    positions: Int32Array.from(tokens, (_, position) => position),
    rowStarts: Int32Array.of(0, tokens.length),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from({ length: blockCount }, (_, i) => i + 1),
    outputRows: Int32Array.of(tokens.length - 1),
    outputKinds: Uint8Array.of(OUTPUT_LOGITS),
  };
}
