import { attentionScale } from '@stet/backend/numerics';
import attentionText from '../../../../kernels/wgsl/attention.wgsl';
import chunkText from '../../../../kernels/wgsl/attention_chunk.wgsl';
import joinText from '../../../../kernels/wgsl/attention_join.wgsl';
import joinedText from '../../../../kernels/wgsl/attention_joined.wgsl';
import kvLayoutText from '../../../../kernels/wgsl/kv_layout.wgsl';
import q15WordsText from '../../../../kernels/wgsl/q15_words.wgsl';
import { Kernel } from '../device/kernel.js';
import type { KernelCall } from '../program/kernel-call.js';
import { type AttentionCall, splitChunks, windowParam } from './attention-shape.js';
import { kvParams } from './kv-write.js';

const attentionKernel = new Kernel('attention', chunkText + kvLayoutText + q15WordsText + joinText + attentionText);
const joinedKernel = new Kernel('attention_joined', joinText + joinedText);

/**
 * Canonical attention of every row and query head over the row's own positions. Whether chunks run side by side, which changes no
 * bit, depends on the batch's size alone.
 */
export function attentionCalls(call: AttentionCall): KernelCall[] {
  const { query, output, kv, layout, headCount, windowSize, partials } = call;
  const { headSize } = layout;
  const window = windowParam(windowSize);
  const share = headCount / layout.kvHeadCount;
  const params = { headSize, headCount, share, window, scale: attentionScale(headSize), ...kvParams(layout) };
  return [
    {
      kernel: attentionKernel,
      params,
      buffers: { query, keys: kv.keys, values: kv.values, output, partials },
      workgroups: (size) => [headCount, size.rowCount, Math.max(1, splitChunks(call, size))],
    },
    {
      kernel: joinedKernel,
      params: { headSize, headCount, window },
      buffers: { partials, output },
      workgroups: (size) => (splitChunks(call, size) > 0 ? [headCount, size.rowCount, 1] : [0, 0, 0]),
    },
  ];
}
