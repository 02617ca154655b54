import { type Batch, type BatchResult, OUTPUT_LOGITS } from '../batch.js';
import { type ModelVector, modelVectors, type VectorSelection } from '../conformance/vectors.js';
import type { Backend, BackendFactory } from '../port.js';
import { compareBits, ReportBuilder, type SelfTestFailure, type SelfTestReport } from './report.js';

/** How the tokens of a model vector are fed. All of them give the same bits. */
export const CHUNKINGS = {
  /** All at once. */
  prefill: [Number.MAX_SAFE_INTEGER],
  /** Chunks of uneven sizes, over and over. */
  chunks: [7, 1, 16, 3, 33, 1, 1],
  /** One token at a time. */
  decode: [1],
} as const;

export type Chunking = keyof typeof CHUNKINGS;

/**
 * Loads the golden models on a backend and compares the canonical logits bit for bit, for each way of feeding the
 * tokens. The default, `chunks`, is what a start needs. Never rejects: a backend that fails to load or to run is a
 * failure of that vector. Each backend that it makes is closed.
 */
export async function selfTestModel(
  factory: BackendFactory,
  selection: Pick<VectorSelection, 'formats'> & { readonly chunkings?: readonly Chunking[] } = {},
): Promise<SelfTestReport> {
  const builder = new ReportBuilder();
  const chunkings = selection.chunkings ?? ['chunks'];
  for (const vector of modelVectors(selection)) {
    try {
      await testModel(vector, chunkings, factory, builder);
    } catch (cause) {
      builder.add(vector.name, 0, { kind: 'error', vector: vector.name, cause });
    }
  }
  return builder.report();
}

async function testModel(
  vector: ModelVector,
  chunkings: readonly Chunking[],
  factory: BackendFactory,
  builder: ReportBuilder,
): Promise<void> {
  const { plan, weights, blockSize, tokens } = vector;
  const blocksEach = Math.ceil(tokens.length / blockSize);
  const blockCount = chunkings.length * blocksEach + 1;
  const backend = await factory({ plan, weights, blockSize, blockCount, maxRows: tokens.length });
  try {
    for (const [i, chunking] of chunkings.entries()) {
      // Descending ids from the end of the pool: a backend that ignores block tables is found out.
      const blocks = Int32Array.from({ length: blocksEach }, (_, b) => blockCount - 1 - i * blocksEach - b);
      const name = `${vector.name}, ${chunking}`;
      builder.add(name, vector.logits.length, await testChunking(backend, vector, name, CHUNKINGS[chunking], blocks));
    }
  } finally {
    await backend.close();
  }
}

async function testChunking(
  backend: Backend,
  vector: ModelVector,
  name: string,
  sizes: readonly number[],
  blocks: Int32Array,
): Promise<SelfTestFailure | undefined> {
  const { tokens, rows, plan, logits: expected } = vector;
  let recorded = 0;
  for (let start = 0, chunk = 0; start < tokens.length; chunk++) {
    const end = Math.min(tokens.length, start + sizes[chunk % sizes.length]!);
    const wanted = [...rows].filter((row) => row >= start && row < end).map((row) => row - start);
    const batch = chunkBatch(tokens.subarray(start, end), start, blocks, wanted);
    const result = (await backend.forward({ canonical: batch })).canonical;
    const from = recorded * plan.vocabSize;
    recorded += wanted.length;
    const slice = expected.subarray(from, recorded * plan.vocabSize);
    const failure = result ? compareResult(name, slice, result, plan.vocabSize, from) : missing(name);
    if (failure) return failure;
    start = end;
  }
  return undefined;
}

function compareResult(
  name: string,
  expected: Float32Array,
  result: BatchResult,
  vocabSize: number,
  offset: number,
): SelfTestFailure | undefined {
  const failure = compareBits(name, expected, result.logits, offset);
  if (failure) return failure;
  const best: number[] = [];
  const runnerUps: number[] = [];
  for (let start = 0; start < expected.length; start += vocabSize) {
    const row = expected.subarray(start, start + vocabSize);
    const token = row.indexOf(Math.max(...row));
    best.push(token);
    runnerUps.push(Math.max(...row.subarray(0, token), ...row.subarray(token + 1)));
  }
  const bestLogits = Float32Array.from(best, (token, row) => expected[row * vocabSize + token]!);
  return (
    compareBits(`${name}, argmax`, Float32Array.from(best), Float32Array.from(result.argmax)) ??
    compareBits(`${name}, argmax logit`, bestLogits, result.argmaxLogit) ??
    compareBits(`${name}, runner-up logit`, Float32Array.from(runnerUps), result.runnerUpLogit)
  );
}

function missing(vector: string): SelfTestFailure {
  return { kind: 'error', vector, cause: new Error('the backend gave no canonical result') };
}

function chunkBatch(tokens: Int32Array, start: number, blocks: Int32Array, wanted: number[]): Batch {
  return {
    tokens,
    positions: tokens.map((_, row) => start + row),
    rowStarts: Int32Array.of(0, tokens.length),
    blockStarts: Int32Array.of(0),
    blocks,
    outputRows: Int32Array.from(wanted),
    outputKinds: new Uint8Array(wanted.length).fill(OUTPUT_LOGITS),
  };
}
