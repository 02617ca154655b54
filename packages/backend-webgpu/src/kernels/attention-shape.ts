import { ATTENTION_CHUNK } from '@stet/backend/numerics';
import type { KvBuffers, KvLayout } from '../kv/kv-layout.js';
import type { BatchSize } from '../program/kernel-call.js';

export interface AttentionCall {
  /** (rowCount × headCount·headSize), as is `output`, another buffer. */
  readonly query: GPUBuffer;
  readonly output: GPUBuffer;
  readonly kv: KvBuffers;
  readonly layout: KvLayout;
  readonly headCount: number;
  /** Sliding window, in positions; the whole context by default. */
  readonly windowSize?: number | undefined;
  /** Of {@link partialBytes}, or less, which changes how the work is split, and no bit. Calls that run one after the other share it. */
  readonly partials: GPUBuffer;
}

/** Where a batch has fewer rows times heads than this, the chunks of a row run side by side. */
const SPLIT_BELOW = 1024;
/** Most bytes that chunks which run side by side may leave behind. */
const MAX_PARTIAL_BYTES = 64 * 2 ** 20;
/** Stands for no window. */
const NO_WINDOW = 2 ** 31 - 1;

type Heads = Pick<AttentionCall, 'headCount' | 'windowSize'> & { readonly layout: Pick<KvLayout, 'headSize'> };

/** Bytes of `partials` that any batch of a model may need. */
export function partialBytes(heads: Heads, maxRows: number, contextLength: number): number {
  const mostRows = Math.min(maxRows, Math.floor((SPLIT_BELOW - 1) / heads.headCount));
  const needed = bytesOf(heads, mostRows, chunksOf(heads.windowSize, contextLength));
  return Math.min(needed, MAX_PARTIAL_BYTES);
}

/** The chunks that run side by side for each row of a batch; 0 where they run one after the other, also for want of room. */
export function splitChunks(call: AttentionCall, { rowCount, positionCount }: BatchSize): number {
  if (rowCount * call.headCount >= SPLIT_BELOW) return 0;
  const chunkCount = chunksOf(call.windowSize, positionCount);
  return chunkCount > 1 && bytesOf(call, rowCount, chunkCount) <= call.partials.size ? chunkCount : 0;
}

export function windowParam(windowSize: number | undefined): number {
  return Math.min(windowSize ?? NO_WINDOW, NO_WINDOW);
}

/** The most chunks that a row looks at. */
export function chunksOf(windowSize: number | undefined, positionCount: number): number {
  const all = Math.ceil(positionCount / ATTENTION_CHUNK);
  return windowSize === undefined ? all : Math.min(all, Math.ceil((windowSize - 1) / ATTENTION_CHUNK) + 1);
}

function bytesOf({ headCount, layout }: Heads, rowCount: number, chunkCount: number): number {
  return rowCount * headCount * chunkCount * (layout.headSize + 2) * 4;
}
