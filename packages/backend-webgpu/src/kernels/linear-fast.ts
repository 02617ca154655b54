import { assert, assertNever, type WeightFormat } from '@stet/backend';
import linearText from '../../../../kernels/wgsl/linear_fast.wgsl';
import fewText from '../../../../kernels/wgsl/linear_fast_few.wgsl';
import manyText from '../../../../kernels/wgsl/linear_fast_many.wgsl';
import { Kernel } from '../device/kernel.js';
import type { KernelCall, Workgroups } from '../program/kernel-call.js';
import type { DeviceMatrix, MatrixPart } from '../weights/device-weight.js';
import { COLUMN_SLICES, type RowShape, rowShapes, shapeOf, shapeOutputs, shapeRows } from './linear-fast-shape.js';
import { variantText } from './variant-text.js';

/** output (rows × weight.rows) = input (rows × weight.columns) · Wᵀ, f32 in any order, with what is fused to it. */
export interface FastLinear {
  readonly weight: DeviceMatrix;
  readonly input: GPUBuffer;
  /** Normalizes the input first, by the root mean square of each row. */
  readonly norm?: FastNorm;
  /** f32 (weight.rows). Not with a second matrix. */
  readonly bias?: GPUBuffer;
  /** Not the input. */
  readonly output: GPUBuffer;
  /** `store` by default. */
  readonly result?: FastLinearResult;
  /** Which row of the input makes row r of the output: r (`same`, the default), or outputs[r] of the batch (`outputs`). */
  readonly inputRow?: 'same' | 'outputs';
}

export interface FastNorm {
  /** f32 (weight.columns) */
  readonly weight: GPUBuffer;
  readonly epsilon: number;
}

export type FastLinearResult =
  | { readonly kind: 'store' }
  /** output += the result. */
  | { readonly kind: 'add' }
  /** output = silu(result) · the result of `up`, a matrix like the first. */
  | { readonly kind: 'swiglu'; readonly up: DeviceMatrix }
  /** Stores the result of a second matrix like the first as well. */
  | { readonly kind: 'two'; readonly weight: DeviceMatrix; readonly output: GPUBuffer };

/** Whether two matrices can be the two of one call: alike in format, shape and parts. */
export function areAlike(a: DeviceMatrix, b: DeviceMatrix): boolean {
  return (
    a.format === b.format &&
    a.rows === b.rows &&
    a.columns === b.columns &&
    a.parts.length === b.parts.length &&
    a.parts.every(({ rowCount }, i) => rowCount === b.parts[i]!.rowCount)
  );
}

/** Makes the fast linears of a program; those of one variant share a kernel. */
export class FastLinears {
  readonly #kernels = new Map<string, Kernel>();

  /** For each part of the weight one call a row shape, of which the row count lets one run. */
  calls(linear: FastLinear): KernelCall[] {
    const second = secondMatrix(linear);
    assert(linear.output !== linear.input, 'a linear does not write its input');
    assert(!second || areAlike(linear.weight, second), 'two matrices of one linear are alike');
    assert(!second || !linear.bias, 'a linear of two matrices has no bias');
    return linear.weight.parts.flatMap((part, i) => this.#partCalls(linear, part, second?.parts[i]));
  }

  #partCalls(linear: FastLinear, part: MatrixPart, second: MatrixPart | undefined): KernelCall[] {
    const { weight, norm } = linear;
    const { columns, rows: stride, format } = weight;
    const steps = stepCount(format, columns);
    const matrices = second ? 2 : 1;
    const flags = flagsOf(linear);
    const params = {
      ...{ columns, steps, outputs: part.rowCount, firstOutput: part.firstRow, stride },
      ...(norm && { epsilon: norm.epsilon }),
    };
    const buffers = buffersOf(linear, part, second);
    return rowShapes.map((shape): KernelCall => {
      const outputs = shapeOutputs[shape] / (shape === 'tile' ? matrices : 1);
      return {
        kernel: this.#kernel(shape, flags),
        params,
        buffers,
        workgroups: ({ rowCount }): Workgroups =>
          rowCount > 0 && shapeOf(rowCount, part.rowCount, matrices) === shape
            ? [Math.ceil(part.rowCount / outputs), Math.ceil(rowCount / shapeRows[shape]), 1]
            : [0, 0, 0],
      };
    });
  }

  #kernel(shape: RowShape, flags: readonly string[]): Kernel {
    const name = ['linear_fast', shape, ...flags].join(' ');
    let kernel = this.#kernels.get(name);
    if (!kernel) {
      kernel =
        shape === 'tile'
          ? new Kernel(name, variantText(linearText + manyText, new Set(flags)))
          : new Kernel(name, variantText(linearText + fewText, new Set(flags)), {
              ROWS: shapeRows[shape],
              TILE: shapeOutputs[shape],
              SLICES: COLUMN_SLICES,
            });
      this.#kernels.set(name, kernel);
    }
    return kernel;
  }
}

/** 16-byte vectors of a row of the matrix. */
function stepCount(format: WeightFormat, columns: number): number {
  switch (format) {
    case 'bf16':
      return Math.ceil(columns / 8);
    case 'q8':
      return Math.ceil(columns / 32) * 2;
    case 'q4':
      return Math.ceil(columns / 32);
    default:
      return assertNever(format);
  }
}

function secondMatrix({ result }: FastLinear): DeviceMatrix | undefined {
  switch (result?.kind) {
    case 'swiglu':
      return result.up;
    case 'two':
      return result.weight;
    case 'store':
    case 'add':
    case undefined:
      return undefined;
    default:
      return assertNever(result);
  }
}

const formatFlags: Readonly<Record<WeightFormat, readonly string[]>> = {
  bf16: ['FORMAT_BF16'],
  q8: ['FORMAT_Q8', 'FORMAT_BYTES'],
  q4: ['FORMAT_Q4', 'FORMAT_BYTES'],
};

const resultFlags: Readonly<Record<FastLinearResult['kind'], readonly string[]>> = {
  store: [],
  add: ['ADD'],
  swiglu: ['TWO', 'SWIGLU'],
  two: ['TWO', 'STORE_TWO'],
};

function flagsOf({ weight, norm, bias, result = { kind: 'store' }, inputRow = 'same' }: FastLinear): string[] {
  return [
    ...formatFlags[weight.format],
    ...resultFlags[result.kind],
    ...(weight.columns % 32 === 0 ? ['QUADS'] : []),
    ...(norm ? ['NORM'] : []),
    ...(bias ? ['BIAS'] : []),
    ...(inputRow === 'outputs' ? ['GATHER'] : []),
  ];
}

function buffersOf(
  { input, norm, bias, output, result }: FastLinear,
  part: MatrixPart,
  second: MatrixPart | undefined,
): Record<string, GPUBuffer> {
  return {
    ...{ input, output, data: part.data },
    ...(part.scales && { scales: part.scales }),
    ...(second && { secondData: second.data }),
    ...(second?.scales && { secondScales: second.scales }),
    ...(norm && { normWeight: norm.weight }),
    ...(bias && { bias }),
    ...(result?.kind === 'two' && { secondOutput: result.output }),
  };
}
