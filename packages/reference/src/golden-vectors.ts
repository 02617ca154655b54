import { type Batch, NUMERICS_ID, OUTPUT_LOGITS } from '@stet/backend';
import { encodeFloats, type ModelCaseSpec, modelCases, type OpCaseSpec, opCases } from '@stet/backend/self-test';
import { createReferenceBackend } from './backend.js';
import { runOp } from './op-runner.js';

/** The golden vector files of `@stet/backend`: file name → content. Everything in them is made by this package. */
export async function goldenVectorFiles(): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for (const kind of new Set(opCases().map((spec) => spec.kind))) {
    const outputs = opCases()
      .filter((spec) => spec.kind === kind)
      .map((spec): [string, string] => [spec.name, encodeFloats(runOp(spec.build()))]);
    files.set(opVectorFile(kind), fileText(outputs));
  }
  const models: [string, string][] = [];
  for (const spec of modelCases()) models.push([spec.name, encodeFloats(await modelLogits(spec))]);
  files.set('model.json', fileText(models));
  return files;
}

function opVectorFile(kind: OpCaseSpec['kind']): string {
  return `${kind === 'rmsNorm' ? 'rms-norm' : kind}.json`;
}

function fileText(outputs: [string, string][]): string {
  const names = outputs.map(([name]) => name);
  if (new Set(names).size !== names.length) throw new Error(`vector names are not unique: ${names.join('; ')}`);
  return `${JSON.stringify({ numerics: NUMERICS_ID, outputs: Object.fromEntries(outputs) }, null, 1)}\n`;
}

/** Logits of the recorded rows, all tokens in one batch. */
async function modelLogits(spec: ModelCaseSpec): Promise<Float32Array> {
  const { plan, weights, blockSize, tokens, rows } = spec;
  const blocks = Int32Array.from({ length: Math.ceil(tokens.length / blockSize) }, (_, i) => i + 1);
  const backend = await createReferenceBackend({
    plan,
    weights,
    blockSize,
    blockCount: blocks.length + 1,
    maxRows: tokens.length,
  });
  const canonical: Batch = {
    tokens,
    positions: tokens.map((_, row) => row),
    rowStarts: Int32Array.of(0, tokens.length),
    blockStarts: Int32Array.of(0),
    blocks,
    outputRows: rows,
    outputKinds: new Uint8Array(rows.length).fill(OUTPUT_LOGITS),
  };
  const result = await backend.forward({ canonical });
  await backend.close();
  return result.canonical?.logits ?? new Float32Array(0);
}
