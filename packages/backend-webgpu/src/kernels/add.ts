import addText from '../../../../kernels/wgsl/add.wgsl';
import { Kernel } from '../device/kernel.js';
import { type KernelCall, spread } from '../program/kernel-call.js';
import { inputBuffers, inputText } from './input-text.js';

export interface AddCall {
  /** (rowCount × width), as are the others; any two of the three may be one buffer. */
  readonly left: GPUBuffer;
  readonly right: GPUBuffer;
  readonly output: GPUBuffer;
  readonly width: number;
}

/** output = left + right. */
export function add({ left, right, output, width }: AddCall): KernelCall {
  const inputs = [
    { name: 'left', binding: 3, buffer: left },
    { name: 'right', binding: 4, buffer: right },
  ];
  return {
    kernel: new Kernel('add', inputText(inputs, output) + addText),
    params: { width },
    buffers: { output, ...inputBuffers(inputs, output) },
    workgroups: ({ rowCount }) => spread(Math.ceil((rowCount * width) / 64)),
  };
}
