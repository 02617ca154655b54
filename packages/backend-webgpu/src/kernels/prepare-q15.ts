import prepareText from '../../../../kernels/wgsl/prepare_q15.wgsl';
import { Kernel } from '../device/kernel.js';
import type { Q15Rows } from '../program/device-model.js';
import { acrossRows, type KernelCall } from '../program/kernel-call.js';

const prepareKernel = new Kernel('prepare_q15', prepareText);

/** Blocks of a workgroup: eight invocations each. */
const GROUP_BLOCKS = 8;

/** output = Q15 of input (rowCount × width), for linears of byte formats. */
export function prepareQ15({
  input,
  output,
  width,
}: {
  readonly input: GPUBuffer;
  readonly output: Q15Rows;
  readonly width: number;
}): KernelCall {
  const blockCount = Math.ceil(width / 32);
  return {
    kernel: prepareKernel,
    params: { width, blockCount },
    buffers: { input, planes: output.planes, scales: output.scales },
    workgroups: ({ rowCount }) => acrossRows(Math.ceil(blockCount / GROUP_BLOCKS), rowCount),
  };
}
