import fastText from '../../../../kernels/wgsl/attention_fast.wgsl';
import joinedText from '../../../../kernels/wgsl/attention_fast_joined.wgsl';
import splitText from '../../../../kernels/wgsl/attention_fast_split.wgsl';
import wholeText from '../../../../kernels/wgsl/attention_fast_whole.wgsl';
import kvLayoutText from '../../../../kernels/wgsl/kv_layout.wgsl';
import { Kernel } from '../device/kernel.js';
import { acrossRows, type BatchSize, type KernelCall, type Workgroups } from '../program/kernel-call.js';
import { type AttentionCall, chunksOf, windowParam } from './attention-shape.js';
import { kvParams } from './kv-write.js';

/** Workgroups that keep a device busy: fewer of them share the context of their rows. */
const BUSY_WORKGROUPS = 1024;
/** Fewest chunks for which a workgroup of its own is worth it, and the most workgroups that share a row. */
const SPLIT_CHUNKS = 2;
const MAX_SPLITS = 64;

const SKIPPED: Workgroups = [0, 0, 0];

/** What a workgroup of a variant has: `heads` query heads that share a K/V head, of each of `rows` rows. */
interface Tile {
  readonly rows: number;
  readonly heads: number;
  /** Groups of `heads` that share a K/V head. */
  readonly groupCount: number;
}

/**
 * Attention in f32, close to the canonical one, of the same K/V. Rows of one sequence that lie side by side share what a workgroup
 * reads of K/V where the batch has many of them; few rows of long contexts have them read by several workgroups.
 */
export function fastAttentionCalls(call: AttentionCall): KernelCall[] {
  const { headCount, layout, partials, output } = call;
  const share = headCount / layout.kvHeadCount;
  const most = layout.paddedHeadSize <= 64 ? 16 : 8;
  const heads = Math.min(most, 2 ** Math.ceil(Math.log2(share)));
  const groupCount = Math.ceil(share / heads);
  const single: Tile = { rows: 1, heads, groupCount };
  const several: Tile = { rows: most / heads, heads, groupCount };
  const isSeveral = ({ rowCount, sequenceCount }: BatchSize): boolean =>
    several.rows > 1 && rowCount >= 2 * sequenceCount;
  const splitsOf = (size: BatchSize): number => splitCount(call, isSeveral(size) ? several : single, size);
  const tiles = several.rows > 1 ? [single, several] : [single];
  return [
    ...tiles.flatMap((tile) => tileCalls(call, tile, (size) => (tile === several) === isSeveral(size))),
    {
      kernel: joinedKernel,
      params: { headSize: layout.headSize, headCount },
      buffers: { partials, output },
      workgroups: (size) => (splitsOf(size) > 1 ? [headCount, size.rowCount, splitsOf(size)] : SKIPPED),
    },
  ];
}

const joinedKernel = new Kernel('attention_fast_joined', joinedText);

/** The calls of one variant, of which one runs, or none where `isChosen` says so. */
function tileCalls(call: AttentionCall, tile: Tile, isChosen: (size: BatchSize) => boolean): KernelCall[] {
  const { query, output, kv, layout, headCount, windowSize, partials } = call;
  const { headSize, kvHeadCount } = layout;
  const { groupCount } = tile;
  const constants = { PADDED: layout.paddedHeadSize, QUERIES: tile.rows * tile.heads, HEADS: tile.heads };
  const parts = kvLayoutText + fastText;
  const params = {
    ...kvParams(layout),
    headSize,
    headCount,
    share: headCount / kvHeadCount,
    groupCount,
    window: windowParam(windowSize),
    scale: Math.LOG2E / Math.sqrt(headSize),
  };
  const inputs = { query, keys: kv.keys, values: kv.values };
  const across = kvHeadCount * groupCount;
  const splitsOf = (size: BatchSize): number => (isChosen(size) ? splitCount(call, tile, size) : 0);
  return [
    {
      kernel: new Kernel('attention_fast', wholeText + parts, constants),
      params,
      buffers: { ...inputs, output },
      workgroups: (size) =>
        splitsOf(size) === 1 ? acrossRows(across, Math.ceil(size.rowCount / tile.rows)) : SKIPPED,
    },
    {
      kernel: new Kernel('attention_fast_split', splitText + parts, constants),
      params,
      buffers: { ...inputs, partials },
      workgroups: (size) =>
        splitsOf(size) > 1 ? [across, Math.ceil(size.rowCount / tile.rows), splitsOf(size)] : SKIPPED,
    },
  ];
}

/** How many workgroups share the context of a tile's rows. */
function splitCount(call: AttentionCall, tile: Tile, { rowCount, positionCount }: BatchSize): number {
  const { layout, headCount, windowSize, partials } = call;
  const workgroupCount = layout.kvHeadCount * tile.groupCount * Math.ceil(rowCount / tile.rows);
  const chunkCount = chunksOf(windowSize, positionCount);
  const roomFor = Math.floor(partials.size / (rowCount * headCount * (layout.headSize + 2) * 4));
  const wanted = Math.min(Math.floor(BUSY_WORKGROUPS / workgroupCount), Math.ceil(chunkCount / SPLIT_CHUNKS));
  return Math.max(1, Math.min(wanted, roomFor, MAX_SPLITS));
}
