import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Backend, type Batch, OUTPUT_LOGITS, type WeightFormat } from '@stet/backend';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { loadModelPath } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';

const shared = process.env.STET_SHARED ?? fileURLToPath(new URL('../../../../shared', import.meta.url));
const tiny = join(shared, 'models', 'tiny');
const cpu = cpuFeatures();
const reason = !existsSync(tiny) ? 'no folder of shared models, set STET_SHARED' : cpu.available ? '' : cpu.reason;
const skipped = reason && ` (skipped: ${reason})`;

const names = [
  ...['llama', 'llama3-rope-bias', 'llama-linear-rope', 'llama-yarn', 'llama-mha-odd', 'mistral-sliding'],
  ...['qwen2', 'qwen3', 'smollm3', 'phi3', 'olmo2'],
];
const formats: readonly WeightFormat[] = ['bf16', 'q8', 'q4'];
const cases = names.flatMap((name) => formats.map((format) => [name, format] as const));

const BLOCK_SIZE = 16;
/** Longer than a chunk of attention, and than every window. */
const TOKENS = Int32Array.from({ length: 80 }, (_, i) => (i * 37 + 11) % 300);

/** Rows `start` .. `end - 1` of the one sequence, all of them with their logits. */
function rows(start: number, end: number): Batch {
  const indices = Int32Array.from({ length: end - start }, (_, i) => i);
  return {
    tokens: TOKENS.slice(start, end),
    positions: indices.map((i) => start + i),
    rowStarts: Int32Array.of(0, end - start),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from({ length: Math.ceil(end / BLOCK_SIZE) }, (_, i) => i + 1),
    outputRows: indices,
    outputKinds: new Uint8Array(end - start).fill(OUTPUT_LOGITS),
  };
}

/** Bits of the canonical logits of all rows, which go through the backend in pieces that end at `ends`. */
async function canonicalBits(backend: Backend, ends: readonly number[]): Promise<number[]> {
  const bits: number[] = [];
  for (const [i, end] of ends.entries()) {
    const { canonical } = await backend.forward({ canonical: rows(ends[i - 1] ?? 0, end) });
    const { logits } = canonical!;
    bits.push(...new Uint32Array(logits.slice().buffer));
  }
  return bits;
}

describe.skipIf(skipped !== '')(`every family on reference and CPU${skipped}`, () => {
  it.each(cases)('%s in %s has equal canonical bits, whatever the pieces', async (name, format) => {
    const model = await loadModelPath(join(tiny, name), { tokenizer: 'none', format });
    const load = { plan: model.plan, weights: model.weights, blockSize: BLOCK_SIZE, blockCount: 8, maxRows: 80 };
    const reference = await createReferenceBackend(load);
    const native = await createCpuBackend()(load);
    const expected = await canonicalBits(reference, [80]);
    const got = await canonicalBits(native, [1, 8, 9, 31, 70, 71, 72, 80]);
    await Promise.all([reference.close(), native.close(), model.close()]);
    expect(expected.length).toBe(80 * model.plan.vocabSize);
    const first = expected.findIndex((bits, i) => bits !== got[i]);
    expect(
      first === -1
        ? 'all equal'
        : `row ${Math.floor(first / model.plan.vocabSize)}: ${expected[first]} and ${got[first]}`,
    ).toBe('all equal');
    expect(got.length).toBe(expected.length);
  });
});
