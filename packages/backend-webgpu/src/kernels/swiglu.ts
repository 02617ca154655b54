import { SWIGLU_SCALE } from '@stet/backend/numerics';
import swigluText from '../../../../kernels/wgsl/swiglu.wgsl';
import { Kernel } from '../device/kernel.js';
import { type KernelCall, spread } from '../program/kernel-call.js';
import { inputBuffers, inputText } from './input-text.js';

export interface SwigluCall {
  /** (rowCount × width), as are the others; any two of the three may be one buffer. */
  readonly gate: GPUBuffer;
  readonly up: GPUBuffer;
  readonly output: GPUBuffer;
  readonly width: number;
}

/** output = silu(gate) · up, canonical. */
export function swiglu({ gate, up, output, width }: SwigluCall): KernelCall {
  const inputs = [
    { name: 'gate', binding: 3, buffer: gate },
    { name: 'up', binding: 4, buffer: up },
  ];
  return {
    kernel: new Kernel('swiglu', inputText(inputs, output) + swigluText),
    params: { width, scale: SWIGLU_SCALE },
    buffers: { output, ...inputBuffers(inputs, output) },
    workgroups: ({ rowCount }) => spread(Math.ceil((rowCount * width) / 64)),
  };
}
