import { assert, type WeightFormat } from '@stet/backend';
import byteInput from '../../../../kernels/wgsl/byte_input.wgsl';
import byteLinear from '../../../../kernels/wgsl/byte_linear.wgsl';
import byteLinearRow from '../../../../kernels/wgsl/byte_linear_row.wgsl';
import linearBf16 from '../../../../kernels/wgsl/linear_bf16.wgsl';
import linearBf16Row from '../../../../kernels/wgsl/linear_bf16_row.wgsl';
import linearParams from '../../../../kernels/wgsl/linear_params.wgsl';
import linearQ4 from '../../../../kernels/wgsl/linear_q4.wgsl';
import linearQ8 from '../../../../kernels/wgsl/linear_q8.wgsl';
import linearRows from '../../../../kernels/wgsl/linear_rows.wgsl';
import { Kernel } from '../device/kernel.js';
import type { Q15Rows } from '../program/device-model.js';
import { acrossRows, type BatchSize, type KernelCall, type Workgroups } from '../program/kernel-call.js';
import type { DeviceMatrix, MatrixPart } from '../weights/device-weight.js';

/** output (rowCount × weight.rows) = input (rowCount × weight.columns) · Wᵀ + bias. */
export interface LinearOperands {
  readonly weight: DeviceMatrix;
  /** f32 (weight.rows) */
  readonly bias?: GPUBuffer;
  /** f32 rows of a `bf16` weight; what `prepareQ15` made of them for a byte format. */
  readonly input: GPUBuffer | Q15Rows;
  readonly output: GPUBuffer;
}

/** Variants have the same bits on any number of rows; which one runs is a matter of speed, chosen by the shape alone. */
export type LinearVariant = 'row' | 'few' | 'many';

/** How a workgroup is laid out: `outputs` neighbouring outputs, for each of which `lanes` invocations share the segments of K. */
interface Variant {
  readonly kind: LinearVariant;
  readonly rows: number;
  readonly outputs: number;
  readonly lanes: number;
}

const variants: readonly Variant[] = [
  { kind: 'row', rows: 1, outputs: 32, lanes: 4 },
  { kind: 'few', rows: 4, outputs: 32, lanes: 4 },
  { kind: 'many', rows: 8, outputs: 64, lanes: 1 },
];

/**
 * From so many outputs of all rows together on there is work enough for a large GPU without sharing K. Below it weights that several
 * workgroups read stay in a cache.
 */
const MANY_OUTPUTS = 2 ** 17;

export function linearVariant(rowCount: number, outputCount: number): LinearVariant {
  if (rowCount === 1) return 'row';
  return rowCount <= 4 || rowCount * outputCount < MANY_OUTPUTS ? 'few' : 'many';
}

const kernels: Readonly<Record<WeightFormat, readonly Kernel[]>> = {
  bf16: kernelsOf('linear_bf16', linearBf16Row, linearBf16),
  q8: kernelsOf('linear_q8', byteInput + linearQ8 + byteLinearRow, byteInput + linearQ8 + byteLinear),
  q4: kernelsOf('linear_q4', byteInput + linearQ4 + byteLinearRow, byteInput + linearQ4 + byteLinear),
};

function kernelsOf(name: string, rowText: string, rowsText: string): Kernel[] {
  return variants.map(({ kind, rows, outputs, lanes }) => {
    const constants = { OUTPUTS: outputs, LANES: lanes };
    return kind === 'row'
      ? new Kernel(`${name}_row`, linearParams + rowText, constants)
      : new Kernel(`${name}_${kind}`, linearParams + linearRows + rowsText, { ...constants, GROUPS: rows / 4 });
  });
}

export const linearVariants: readonly LinearVariant[] = variants.map(({ kind }) => kind);

/** The canonical linear: for each part of the weight one call a variant, of which the row count lets one run; or `forced` alone. */
export function linearCalls(operands: LinearOperands, forced?: LinearVariant): KernelCall[] {
  const choose = (rowCount: number): LinearVariant => forced ?? linearVariant(rowCount, operands.weight.rows);
  return operands.weight.parts.flatMap((part) => variants.map((_, i) => partCall(operands, part, i, choose)));
}

function partCall(
  operands: LinearOperands,
  part: MatrixPart,
  index: number,
  choose: (rowCount: number) => LinearVariant,
): KernelCall {
  const { weight, bias } = operands;
  const { rows, outputs, kind } = variants[index]!;
  const workgroups = ({ rowCount }: BatchSize): Workgroups =>
    rowCount > 0 && choose(rowCount) === kind
      ? acrossRows(Math.ceil(part.rowCount / outputs), Math.ceil(rowCount / rows))
      : [0, 0, 0];
  return {
    kernel: kernels[weight.format][index]!,
    params: {
      outputCount: part.rowCount,
      columns: weight.columns,
      stride: weight.rows,
      firstOutput: part.firstRow,
      hasBias: bias ? 1 : 0,
    },
    buffers: {
      ...inputBuffers(operands),
      data: part.data,
      ...(part.scales && { scales: part.scales }),
      // Something has to be bound; without a bias it is not read.
      bias: bias ?? part.data,
      output: operands.output,
    },
    workgroups,
  };
}

function inputBuffers({ weight, input }: LinearOperands): Record<string, GPUBuffer> {
  if ('planes' in input) {
    assert(weight.format !== 'bf16', 'a bf16 linear takes f32 rows');
    return { planes: input.planes, inputScales: input.scales };
  }
  assert(weight.format === 'bf16', `a ${weight.format} linear takes prepared rows`);
  return { input };
}
