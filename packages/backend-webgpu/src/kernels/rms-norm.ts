import { assert } from '@stet/backend';
import { rmsNormConstants } from '@stet/backend/numerics';
import rmsNormText from '../../../../kernels/wgsl/rms_norm.wgsl';
import { Kernel } from '../device/kernel.js';
import { acrossRows, type KernelCall } from '../program/kernel-call.js';
import { inputBuffers, inputText } from './input-text.js';

export interface RmsNormCall {
  /** (rows × width) */
  readonly input: GPUBuffer;
  /** (width / groupCount) */
  readonly weight: GPUBuffer;
  /** (rowCount × width); may be the input, unless `inputRow` is `outputs`. */
  readonly output: GPUBuffer;
  readonly width: number;
  readonly epsilon: number;
  /** Equal parts of a row that are normalized by themselves; 1 by default. */
  readonly groupCount?: number;
  /** Which row of the input makes row r of the output: r (`same`, the default), or outputs[r] of the batch (`outputs`). */
  readonly inputRow?: 'same' | 'outputs';
}

const INPUT_ROW = {
  same: 'fn input_row(row: u32) -> u32 { return row; }\n',
  outputs:
    '@group(0) @binding(5) var<storage, read> outputs: array<i32>;\nfn input_row(row: u32) -> u32 { return u32(outputs[row]); }\n',
} as const;

/** output = input / rms(input) · weight of each group, for `rowCount` rows of output. */
export function rmsNorm(call: RmsNormCall): KernelCall {
  const { input, weight, output, width, epsilon, groupCount = 1, inputRow = 'same' } = call;
  assert(inputRow === 'same' || input !== output, 'rows are not gathered in place');
  const inputs = [{ name: 'input', binding: 4, buffer: input }];
  const groupWidth = width / groupCount;
  return {
    kernel: new Kernel('rms_norm', inputText(inputs, output) + INPUT_ROW[inputRow] + rmsNormText),
    params: { width, groupWidth, ...rmsNormConstants(groupWidth, epsilon) },
    buffers: { weight, output, ...inputBuffers(inputs, output) },
    workgroups: ({ rowCount }) => acrossRows(groupCount, rowCount),
  };
}
