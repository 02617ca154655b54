import addText from '../../../../kernels/wgsl/add.wgsl';
import { Kernel } from '../device/kernel.js';
import { type KernelCall, spread } from '../program/kernel-call.js';

const addKernel = new Kernel('add', addText);

/** output += right, both (rowCount × width). */
export function addInPlace({
  right,
  output,
  width,
}: {
  readonly right: GPUBuffer;
  readonly output: GPUBuffer;
  readonly width: number;
}): KernelCall {
  return {
    kernel: addKernel,
    params: { width },
    buffers: { right, output },
    workgroups: ({ rowCount }) => spread(Math.ceil((rowCount * width) / 64)),
  };
}
