import kvLayoutText from '../../../../kernels/wgsl/kv_layout.wgsl';
import kvWriteText from '../../../../kernels/wgsl/kv_write.wgsl';
import q15WordsText from '../../../../kernels/wgsl/q15_words.wgsl';
import { Kernel } from '../device/kernel.js';
import type { KvBuffers, KvLayout } from '../kv/kv-layout.js';
import { acrossRows, type KernelCall } from '../program/kernel-call.js';

export interface KvWriteCall {
  /** (rowCount × kvHeadCount·headSize), as is `value`. */
  readonly key: GPUBuffer;
  readonly value: GPUBuffer;
  readonly kv: KvBuffers;
  readonly layout: KvLayout;
}

const kvWriteKernel = new Kernel('kv_write', kvLayoutText + q15WordsText + kvWriteText);

/** Stores K and V of every row at its position. */
export function kvWrite({ key, value, kv, layout }: KvWriteCall): KernelCall {
  const { headSize } = layout;
  const itemCount = (2 * layout.kvHeadCount * layout.paddedHeadSize) / 32;
  return {
    kernel: kvWriteKernel,
    params: { headSize, ...kvParams(layout) },
    buffers: { key, value, keys: kv.keys, values: kv.values },
    workgroups: ({ rowCount }) => acrossRows(Math.ceil(itemCount / 8), rowCount),
  };
}

/** Parameters of the kernels that include kv_layout.wgsl. */
export function kvParams(layout: KvLayout): Record<string, number> {
  const { kvHeadCount, paddedHeadSize, blockSize, exponentWords, headBlockWords } = layout;
  return { kvHeadCount, headWords: paddedHeadSize / 4, blockSize, exponentWords, headBlockWords };
}
