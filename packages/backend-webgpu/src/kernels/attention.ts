import { attentionScale } from '@stet/backend/numerics';
import attentionText from '../../../../kernels/wgsl/attention.wgsl';
import chunkText from '../../../../kernels/wgsl/attention_chunk.wgsl';
import joinText from '../../../../kernels/wgsl/attention_join.wgsl';
import joinedText from '../../../../kernels/wgsl/attention_joined.wgsl';
import splitText from '../../../../kernels/wgsl/attention_split.wgsl';
import kvLayoutText from '../../../../kernels/wgsl/kv_layout.wgsl';
import q15WordsText from '../../../../kernels/wgsl/q15_words.wgsl';
import { Kernel } from '../device/kernel.js';
import { acrossRows, type KernelCall } from '../program/kernel-call.js';
import { type AttentionCall, splitChunks, windowParam } from './attention-shape.js';
import { kvParams } from './kv-write.js';

const parts = chunkText + kvLayoutText + q15WordsText;
const wholeKernel = new Kernel('attention', parts + joinText + attentionText);
const splitKernel = new Kernel('attention_split', parts + splitText);
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
  const inputs = { query, keys: kv.keys, values: kv.values };
  return [
    {
      kernel: wholeKernel,
      params,
      buffers: { ...inputs, output },
      workgroups: (size) => (splitChunks(call, size) > 0 ? [0, 0, 0] : acrossRows(headCount, size.rowCount)),
    },
    {
      kernel: splitKernel,
      params,
      buffers: { ...inputs, partials },
      workgroups: (size) => [headCount, size.rowCount, splitChunks(call, size)],
    },
    {
      kernel: joinedKernel,
      params: { headSize, headCount, window },
      buffers: { partials, output },
      workgroups: (size) => (splitChunks(call, size) > 0 ? [headCount, size.rowCount, 1] : [0, 0, 0]),
    },
  ];
}
