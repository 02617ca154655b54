import type { Backend, BackendLoad, Plan } from '@stet/backend';
import { encodeBf16, fromBits } from '@stet/backend/numerics';
import { createCpuBackend } from '@stet/backend-cpu';
import type { LoadedModel } from '@stet/model';
import { loadModelPath } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { type Agreement, agreement } from './agreement.js';
import { BLOCK_SIZE, blocksFor, forwardCase, MAX_ROWS } from './forward-case.js';
import type { GoldenModel } from './golden.js';

export interface MeasuredModel {
  readonly row: ModelRow;
  /** Of the CPU backend. */
  readonly device: string;
}

/** One row of the table. */
export interface ModelRow {
  readonly model: string;
  readonly architecture: string;
  readonly 'tensor types': string;
  readonly 'reference bf16, largest difference': number | string;
  readonly 'reference bf16, greedy ids': string;
  readonly 'cpu fast, largest difference': number | string;
  readonly 'cpu fast, greedy ids': string;
  readonly 'canonical bits, reference = cpu': string;
}

/**
 * Runs a model over the recorded prompts and answers: on the reference backend and on the CPU backend's fast schedule,
 * against the recorded values; and on the CPU backend's canonical schedule, bit for bit against the reference.
 */
export async function measureModel(golden: GoldenModel): Promise<MeasuredModel> {
  const model = await loadModelPath(golden.path, { tokenizer: 'none', format: 'bf16' });
  const backends: Backend[] = [];
  try {
    const load = loadOf(model, golden);
    const reference = await createReferenceBackend(load);
    backends.push(reference);
    const cpu = await createCpuBackend()(load);
    backends.push(cpu);
    const exact: Float32Array[] = [];
    const fast: Float32Array[] = [];
    let equal = 0;
    let total = 0;
    for (const one of golden.cases) {
      const rows = await forwardCase(reference, 'canonical', one, 'batch');
      equal += countEqualBits(rows, await forwardCase(cpu, 'canonical', one, 'decode'));
      total += rows.length;
      exact.push(rows);
      fast.push(await forwardCase(cpu, 'fast', one, 'decode'));
    }
    const { vocabSize } = model.plan;
    const row = rowOf(golden, model, {
      reference: agreement(golden.cases, exact, vocabSize),
      fast: agreement(golden.cases, fast, vocabSize),
      bits: equal === total ? `all ${total.toLocaleString('en')}` : `${total - equal} of ${total} DIFFER`,
    });
    return { row, device: cpu.info.device };
  } finally {
    for (const backend of backends) await backend.close();
    await model.close();
  }
}

function loadOf(model: LoadedModel, golden: GoldenModel): BackendLoad {
  return {
    plan: golden.ropeFrequencies === 'exact' ? model.plan : withRoundedRopes(model.plan),
    weights: model.weights,
    blockSize: BLOCK_SIZE,
    blockCount: blocksFor(golden.cases),
    maxRows: MAX_ROWS,
  };
}

function withRoundedRopes(plan: Plan): Plan {
  const rounded = (frequencies: readonly number[]): number[] =>
    Array.from(encodeBf16('rope', Float32Array.from(frequencies)), (bits) => fromBits(bits << 16));
  return {
    ...plan,
    ropes: plan.ropes.map((rope) => ({ ...rope, inverseFrequencies: rounded(rope.inverseFrequencies) })),
  };
}

function countEqualBits(a: Float32Array, b: Float32Array): number {
  const bitsOf = (values: Float32Array) => new Uint32Array(values.buffer, values.byteOffset, values.length);
  const [one, other] = [bitsOf(a), bitsOf(b)];
  return one.reduce((count, bits, i) => count + (bits === other[i] ? 1 : 0), 0);
}

function rowOf(
  golden: GoldenModel,
  model: LoadedModel,
  result: { readonly reference: Agreement; readonly fast: Agreement; readonly bits: string },
): ModelRow {
  return {
    model: golden.name,
    architecture: model.architecture,
    'tensor types': model.storage.tensorTypes.map(({ type }) => type).join(', '),
    'reference bf16, largest difference': rounded(result.reference.largestDifference),
    'reference bf16, greedy ids': describeGreedy(result.reference),
    'cpu fast, largest difference': rounded(result.fast.largestDifference),
    'cpu fast, greedy ids': describeGreedy(result.fast),
    'canonical bits, reference = cpu': result.bits,
  };
}

function rounded(difference: number): number {
  return Number(difference.toPrecision(2));
}

function describeGreedy({ agreeing, total, disagreements }: Agreement): string {
  if (disagreements.length === 0) return `all ${total}`;
  const gaps = disagreements.map(({ step, gap, cause }) => `${gap} at step ${step}, ${cause}`);
  return `${agreeing} of ${total}; then gaps of ${gaps.join('; ')}`;
}

/** A model that is not loaded, and why. */
export function refusedRow(model: string, reason: string): ModelRow {
  return {
    model,
    architecture: `refused: ${reason.split(';')[0]}`,
    'tensor types': '–',
    'reference bf16, largest difference': '–',
    'reference bf16, greedy ids': '–',
    'cpu fast, largest difference': '–',
    'cpu fast, greedy ids': '–',
    'canonical bits, reference = cpu': '–',
  };
}
