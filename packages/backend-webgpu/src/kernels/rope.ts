import ropeText from '../../../../kernels/wgsl/rope.wgsl';
import { Kernel } from '../device/kernel.js';
import { acrossRows, type KernelCall } from '../program/kernel-call.js';

export interface RopeCall {
  /** (rowCount × headCount·headSize), rotated in place. */
  readonly buffer: GPUBuffer;
  /** f32 pairs (cosine, sine) of position p and pair i at 2·(p·headSize/2 + i): `DeviceModel.ropes`. */
  readonly turns: GPUBuffer;
  readonly headCount: number;
  readonly headSize: number;
}

const ropeKernel = new Kernel('rope', ropeText);

/** Rotates each head of each row by the row's position. */
export function rope({ buffer, turns, headCount, headSize }: RopeCall): KernelCall {
  const pairCount = headSize / 2;
  return {
    kernel: ropeKernel,
    params: { headCount, pairCount },
    buffers: { buffer, turns },
    workgroups: ({ rowCount }) => acrossRows(Math.ceil((headCount * pairCount) / 64), rowCount),
  };
}
