import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type BackendLoad, StetError, type WeightData, type WeightSpec } from '@stet/backend';
import type { LoadedModel } from '@stet/model';
import { loadModelPath } from '@stet/model/node';
import { describe, expect, it } from 'vitest';
import { createEngine, weightsKey } from '../src/index.js';

const shared = process.env.STET_SHARED ?? fileURLToPath(new URL('../../../../shared', import.meta.url));
const smollm2 = process.env.STET_MODEL_SMOLLM2 ?? `${shared}/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf`;
const hasSmollm2 = existsSync(smollm2);
const withSmollm2 = hasSmollm2 ? '' : ' (skipped: the file of SmolLM2 is not here, set STET_MODEL_SMOLLM2)';

function arraysOf(data: WeightData): readonly ArrayBufferView[] {
  switch (data.kind) {
    case 'bf16':
      return [data.bits];
    case 'q8':
      return [data.quants, data.scales];
    case 'q4':
      return [data.nibbles, data.scales, data.centres];
    case 'vector':
      return [data.values];
  }
}

async function hashOf({ plan, weights }: LoadedModel, takes: (spec: WeightSpec) => boolean): Promise<string> {
  const hash = createHash('sha256');
  for (const spec of plan.weights.filter(takes)) {
    for (const array of arraysOf(await weights.read(spec))) {
      hash.update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    }
  }
  return hash.digest('hex');
}

describe('weightsKey', () => {
  it('goes to the backend with the weights', async () => {
    const model = await loadModelPath('tales');
    let given: BackendLoad | undefined;
    const backend = (load: BackendLoad) => {
      given = load;
      return Promise.reject(new StetError('STET_ERR_UNSUPPORTED', 'no backend'));
    };
    await expect(createEngine({ model, backend })).rejects.toThrow('no backend');
    expect(given?.weightsKey).toBe(weightsKey(model));
    expect(given?.weightsKey).toMatch(/^[0-9a-f]{64}$/);
  });

  it('is that of other weights for other files and other formats, and the same for fewer positions', async () => {
    const models = await Promise.all([
      loadModelPath('tales'),
      loadModelPath('tales', { format: 'bf16', contextLength: 64 }),
      loadModelPath('tales', { format: 'q8' }),
      loadModelPath('tales', { format: 'q4' }),
    ]);
    const keys = models.map(weightsKey);
    expect(keys[1]).toBe(keys[0]);
    expect(new Set(keys).size).toBe(3);
    expect(keys).not.toContain(weightsKey({ ...models[0]!, digest: '0'.repeat(64) }));
    await Promise.all(models.map((model) => model.close()));
  });

  // Where one of these fails because weights are read otherwise on purpose, raise READING_VERSION with the new hash:
  // else backends would go on with what they have kept of the old ones.
  const read = [
    ['bf16', 'deae13d48506e4fb86f40e6c336512231c8f35684aa8c51784c16e45279daaa2'],
    ['q8', 'a42d3213323175967a4c8ba397f23386b5805ee47d9c096c36d978cae122ca3d'],
    ['q4', '02bfaa8f0323d160e910a10a1b54f5083c966a228d5a7578ca4ecdbb3a711381'],
  ] as const;
  it.each(read)('stands for these weights of the embedded model in %s', async (format, expected) => {
    const model = await loadModelPath('tales', { format, tokenizer: 'none' });
    expect(await hashOf(model, () => true)).toBe(expected);
    await model.close();
  });

  it.skipIf(!hasSmollm2)(`stands for these weights of a GGUF file${withSmollm2}`, async () => {
    const model = await loadModelPath(smollm2, { tokenizer: 'none' });
    expect(await hashOf(model, ({ name }) => /\b0\b/.test(name))).toBe(
      '838deaf220ed67d871ff9f5e31459439932b687f87b4462ff9b812a1c73af576',
    );
    await model.close();
  });
});
