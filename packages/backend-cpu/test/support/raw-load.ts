import type { Batch, Plan, WeightData } from '@stet/backend';
import { ropeTables } from '@stet/backend/numerics';
import type { IsaName } from '../../src/addon.js';
import { isaNumber } from '../../src/options.js';
import { compileProgram } from '../../src/program.js';
import { largeModel, largeSizes } from './long-step.js';

/** What raw-backend.mjs needs to use the addon from plain JavaScript, in a worker or another process; can be cloned. */
export interface RawLoad {
  readonly addonFile: string;
  readonly isa: number;
  readonly program: Int32Array;
  readonly constants: Float32Array;
  readonly ropes: { readonly cosine: Float32Array; readonly sine: Float32Array }[];
  readonly weights: WeightData[];
  readonly columns: Int32Array;
  readonly vocabSize: number;
}

/** A batch of the large model, whose blocks nobody checks. */
export async function rawLoad(batch: Batch, isa: IsaName = 'scalar', plan: Plan = largeModel().plan): Promise<RawLoad> {
  const { weights } = largeModel();
  const { words, constants } = compileProgram({ plan, ...largeSizes }, 'native');
  const data: WeightData[] = [];
  for (const spec of plan.weights) data.push(await weights.read(spec));
  return {
    addonFile: new URL('../../build/stet_cpu.node', import.meta.url).pathname,
    isa: isaNumber[isa],
    program: words,
    constants,
    ropes: plan.ropes.map((rope) => ropeTables(rope, plan.contextLength)),
    weights: data,
    columns: columnsOf(batch),
    vocabSize: plan.vocabSize,
  };
}

/** The columns as src/step-memory.ts lays them out. */
function columnsOf(batch: Batch): Int32Array {
  const { tokens, positions, rowStarts, blockStarts, blocks, outputRows, outputKinds } = batch;
  return Int32Array.of(
    ...[tokens.length, rowStarts.length - 1, outputRows.length, blocks.length],
    ...tokens,
    ...positions,
    ...rowStarts,
    ...blockStarts,
    blocks.length,
    ...outputRows,
    ...outputKinds,
    ...blocks,
  );
}
