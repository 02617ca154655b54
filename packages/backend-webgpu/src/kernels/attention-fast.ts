import fastText from '../../../../kernels/wgsl/attention_fast.wgsl';
import joinedText from '../../../../kernels/wgsl/attention_fast_joined.wgsl';
import kvLayoutText from '../../../../kernels/wgsl/kv_layout.wgsl';
import { Kernel } from '../device/kernel.js';
import type { BatchSize, KernelCall, Workgroups } from '../program/kernel-call.js';
import { type AttentionCall, chunksOf, windowParam } from './attention-shape.js';
import { kvParams } from './kv-write.js';

/** Workgroups that keep a device busy: fewer of them share the context of their rows. */
const BUSY_WORKGROUPS = 1024;
/** Fewest chunks for which a workgroup of its own is worth it, and the most workgroups that share a row. */
const SPLIT_CHUNKS = 2;
const MAX_SPLITS = 64;

const SKIPPED: Workgroups = [0, 0, 0];

/** What a workgroup of a variant has: `heads` query heads that share a K/V head, a power of two, of each of `rows` rows. */
interface Tile {
  readonly rows: number;
  readonly heads: number;
}

const joinedKernel = new Kernel('attention_fast_joined', joinedText);

/**
 * Attention in f32, close to the canonical one, of the same K/V. Rows of one sequence that lie side by side share what a workgroup
 * reads of K/V where the batch has many of them; few rows of long contexts have them read by several workgroups.
 */
export function fastAttentionCalls(call: AttentionCall): KernelCall[] {
  const { headCount, layout, partials, output } = call;
  const { headSize } = layout;
  // Workgroup memory holds so many queries.
  const most = headSize <= 64 ? 16 : 8;
  const heads = Math.min(most, 2 ** Math.ceil(Math.log2(headCount / layout.kvHeadCount)));
  const single: Tile = { rows: 1, heads };
  const several: Tile = { rows: most / heads, heads };
  const tileOf = ({ rowCount, sequenceCount }: BatchSize): Tile =>
    several.rows > 1 && rowCount >= 2 * sequenceCount ? several : single;
  const tiles = several.rows > 1 ? [single, several] : [single];
  return [
    ...tiles.map((tile) => tileCall(call, tile, (size) => tileOf(size) === tile)),
    {
      kernel: joinedKernel,
      params: { headSize, headCount },
      buffers: { partials, output },
      workgroups: (size) => {
        const splits = splitCount(call, tileOf(size), size);
        return splits > 1 ? [headCount, size.rowCount, splits] : SKIPPED;
      },
    },
  ];
}

function tileCall(call: AttentionCall, tile: Tile, isChosen: (size: BatchSize) => boolean): KernelCall {
  const { query, output, kv, layout, headCount, partials } = call;
  const { headSize, kvHeadCount } = layout;
  const constants = { QUERIES: tile.rows * tile.heads, ELEMENTS: headSize <= 64 ? 1 : headSize <= 128 ? 2 : 4 };
  const groupCount = groupsOf(call, tile);
  return {
    kernel: new Kernel('attention_fast', fastText + kvLayoutText, constants),
    params: {
      ...kvParams(layout),
      headSize,
      headCount,
      share: headCount / kvHeadCount,
      tileShift: Math.log2(tile.heads),
      groupCount,
      window: windowParam(call.windowSize),
      scale: Math.LOG2E / Math.sqrt(headSize),
    },
    buffers: { query, keys: kv.keys, values: kv.values, output, partials },
    workgroups: (size) =>
      isChosen(size)
        ? [kvHeadCount * groupCount, Math.ceil(size.rowCount / tile.rows), splitCount(call, tile, size)]
        : SKIPPED,
  };
}

/** Tiles that it takes for the query heads of a K/V head. */
function groupsOf({ headCount, layout }: AttentionCall, { heads }: Tile): number {
  return Math.ceil(headCount / layout.kvHeadCount / heads);
}

/** How many workgroups share the context of a tile's rows. */
function splitCount(call: AttentionCall, tile: Tile, { rowCount, positionCount }: BatchSize): number {
  const { layout, headCount, windowSize, partials } = call;
  const workgroupCount = layout.kvHeadCount * groupsOf(call, tile) * Math.ceil(rowCount / tile.rows);
  const chunkCount = chunksOf(windowSize, positionCount);
  const roomFor = Math.floor(partials.size / (rowCount * headCount * (layout.headSize + 2) * 4));
  const wanted = Math.min(Math.floor(BUSY_WORKGROUPS / workgroupCount), Math.ceil(chunkCount / SPLIT_CHUNKS));
  return Math.max(1, Math.min(wanted, roomFor, MAX_SPLITS));
}
