import { assert, assertNever, type WeightData } from '@stet/backend';
import { linearBf16 } from './linear-bf16.js';
import { linearQ4 } from './linear-q4.js';
import { linearQ8 } from './linear-q8.js';

/** output (rowCount × rows) = input (rowCount × columns) · Wᵀ + bias. */
export interface LinearCall {
  readonly rows: number;
  readonly columns: number;
  readonly weight: WeightData;
  /** (rows) */
  readonly bias: Float32Array | undefined;
  readonly input: Float32Array;
  readonly rowCount: number;
  readonly output: Float32Array;
}

/** Computes outputs from .. to - 1 of every row; outputs do not depend on how they are split into ranges. */
export type OutputRange = (from: number, to: number) => void;

/** Rounds the activations once and returns the rest of the work, to be done in ranges of outputs. */
export function linear(call: LinearCall): OutputRange {
  const { weight } = call;
  switch (weight.kind) {
    case 'bf16':
      return linearBf16(call, weight.bits);
    case 'q8':
      return linearQ8(call, weight.quants, weight.scales);
    case 'q4':
      return linearQ4(call, weight);
    case 'vector':
      assert(false, 'a linear has a matrix');
      break;
    default:
      assertNever(weight);
  }
}
