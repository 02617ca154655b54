import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Batch, OUTPUT_ARGMAX } from '@stet/backend';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder, talesName } from '@stet/tales';
import { describe, expect, it } from 'vitest';

interface Golden {
  readonly model_safetensors_sha256: string;
  readonly prompts: readonly {
    readonly prompt: string;
    readonly prompt_ids: readonly number[];
    readonly greedy_ids: readonly number[];
    readonly top2_gap: readonly number[];
  }[];
}

const readGolden = async (): Promise<Golden> => JSON.parse(await readFile(new URL('golden.json', talesFolder), 'utf8'));

/** Below this gap between the two best logits of the golden run, other roundings may choose the other token. */
const CLEAR_GAP = 0.05;
const BLOCK_SIZE = 16;

describe('the embedded model', () => {
  it('encodes the golden prompts with id 0 in front and decodes them back', async () => {
    const model = await loadModelFolder(talesFolder);
    const golden = await readGolden();
    expect(golden.prompts).toHaveLength(5);
    for (const { prompt, prompt_ids } of golden.prompts) {
      expect(model.tokenizer!.encode(prompt, { addSpecialTokens: true })).toEqual(prompt_ids);
      expect(model.tokenizer!.decode(prompt_ids, { skipSpecialTokens: true })).toBe(prompt);
    }
    await model.close();
  });

  it('has the weights that the golden file was made with', async () => {
    const bytes = await readFile(new URL('model.safetensors', talesFolder));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe((await readGolden()).model_safetensors_sha256);
  });

  it('says what it is', async () => {
    const model = await loadModelFolder(talesFolder);
    expect(model).toMatchObject({
      name: 'model',
      architecture: 'llama',
      bosId: 0,
      eosIds: [0],
      contextLength: 1024,
      generationDefaults: { mode: 'sample', temperature: 0.7, topP: 0.9 },
    });
    expect(model.chatTemplate).toBeUndefined();
    expect(talesName).toBe('tales');
    await model.close();
  });

  it('continues the golden prompts greedily wherever the golden gap is clear', async () => {
    const model = await loadModelFolder(talesFolder);
    const golden = await readGolden();
    const sequences = golden.prompts.map(({ prompt_ids, greedy_ids }) => [...prompt_ids, ...greedy_ids.slice(0, -1)]);
    const batch = prefillBatch(
      sequences,
      golden.prompts.map(({ prompt_ids }) => prompt_ids.length - 1),
    );
    const backend = await createReferenceBackend({
      plan: model.plan,
      weights: model.weights,
      blockSize: BLOCK_SIZE,
      blockCount: batch.blocks.length + 1,
      maxRows: batch.tokens.length,
    });
    const { canonical } = await backend.forward({ canonical: batch });
    let clear = 0;
    let output = 0;
    for (const [index, { greedy_ids, top2_gap }] of golden.prompts.entries()) {
      for (const [step, id] of greedy_ids.entries()) {
        const got = canonical!.argmax[output++];
        if (top2_gap[step]! <= CLEAR_GAP) continue;
        clear++;
        expect(got, `prompt ${index}, step ${step}, gap ${top2_gap[step]}`).toBe(id);
      }
    }
    expect(output).toBe(5 * 64);
    expect(clear).toBeGreaterThan(280);
    await backend.close();
    await model.close();
  });
});

/** All sequences in one batch, each in blocks of its own; the rows from `firstOutputs` on want their arg-max. */
function prefillBatch(sequences: readonly (readonly number[])[], firstOutputs: readonly number[]): Batch {
  const rowStarts = [0];
  const blockStarts = [0];
  const outputRows: number[] = [];
  let blockCount = 0;
  for (const [index, sequence] of sequences.entries()) {
    const start = rowStarts.at(-1)!;
    for (let i = firstOutputs[index]!; i < sequence.length; i++) outputRows.push(start + i);
    rowStarts.push(start + sequence.length);
    blockCount += Math.ceil(sequence.length / BLOCK_SIZE);
    blockStarts.push(blockCount);
  }
  return {
    tokens: Int32Array.from(sequences.flat()),
    positions: Int32Array.from(sequences.flatMap((sequence) => sequence.map((_, position) => position))),
    rowStarts: Int32Array.from(rowStarts),
    blockStarts: Int32Array.from(blockStarts.slice(0, -1)),
    blocks: Int32Array.from({ length: blockCount }, (_, i) => i + 1),
    outputRows: Int32Array.from(outputRows),
    outputKinds: new Uint8Array(outputRows.length).fill(OUTPUT_ARGMAX),
  };
}
