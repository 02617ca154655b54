import type { Plan } from '@stet/backend';
import type { KvBuffers, KvLayout } from '../kv/kv-layout.js';
import type { DeviceWeight } from '../weights/device-weight.js';

/** Everything that the programs of a model read and write on the device, apart from what a batch brings. */
export interface DeviceModel {
  readonly plan: Plan;
  readonly maxRows: number;
  /** By BufferId: f32 (maxRows × width). */
  readonly buffers: readonly GPUBuffer[];
  /** By WeightId. */
  readonly weights: readonly DeviceWeight[];
  /** By RopeId: f32 pairs (cosine, sine) of position p and pair i at 2·(p·headSize/2 + i). */
  readonly ropes: readonly GPUBuffer[];
  readonly kvLayout: KvLayout;
  /** By layer. */
  readonly kv: readonly KvBuffers[];
}

/** Inputs of a byte linear, made by `prepare_q15.wgsl`: Q15 blocks of 32 along each row, B = ceil(width / 32). */
export interface Q15Rows {
  /** vec4<u32> [row][B][4]: the high plane of a block in two vectors, then its low plane; four i8 a word, the first lowest. */
  readonly planes: GPUBuffer;
  /** vec2<f32> [row][B]: 2^e, and z = r16(f32(S))·2^(e-7) with S the sum of the block's quants. */
  readonly scales: GPUBuffer;
}

export function q15PlaneBytes(width: number): number {
  return Math.ceil(width / 32) * 64;
}

export function q15ScaleBytes(width: number): number {
  return Math.ceil(width / 32) * 8;
}
