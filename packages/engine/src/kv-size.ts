import { type Plan, StetError } from '@stet/backend';
import { kvBytesPerPosition } from '@stet/model';

/** How much K/V an engine has. By default enough for 64 sequences of the whole context, up to 256 MiB. */
export interface KvOptions {
  /** Positions in a block, a multiple of 16; 16 by default. */
  readonly blockSize?: number;
  /** Usable blocks. Give this or `memoryBytes`. */
  readonly blockCount?: number;
  /** As many blocks as fit. */
  readonly memoryBytes?: number;
}

export interface KvSize {
  readonly blockSize: number;
  /** Block 0, which is never issued, included. */
  readonly blockCount: number;
}

const DEFAULT_BLOCK_SIZE = 16;
const DEFAULT_SEQUENCES = 64;
const DEFAULT_MEMORY_BYTES = 256 * 2 ** 20;

/** Throws `STET_ERR_BAD_REQUEST` for sizes that make no pool. */
export function kvSize(plan: Plan, options: KvOptions = {}): KvSize {
  const { blockSize = DEFAULT_BLOCK_SIZE, blockCount, memoryBytes } = options;
  for (const [name, value] of Object.entries({ blockSize, blockCount, memoryBytes })) {
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 1))
      throw new StetError('STET_ERR_BAD_REQUEST', `kv.${name} must be a positive integer, not ${value}`);
  }
  if (blockCount !== undefined && memoryBytes !== undefined)
    throw new StetError('STET_ERR_BAD_REQUEST', 'give kv.blockCount or kv.memoryBytes, not both');
  if (blockCount !== undefined) return { blockSize, blockCount: blockCount + 1 };
  const blockBytes = blockSize * kvBytesPerPosition(plan);
  if (memoryBytes !== undefined) {
    const fitting = Math.floor(memoryBytes / blockBytes);
    if (fitting < 2)
      throw new StetError(
        'STET_ERR_BAD_REQUEST',
        `kv.memoryBytes ${memoryBytes} holds no block of ${blockBytes} bytes`,
      );
    return { blockSize, blockCount: fitting };
  }
  const blocksPerSequence = Math.ceil(plan.contextLength / blockSize);
  const wanted = DEFAULT_SEQUENCES * blocksPerSequence;
  const fitting = Math.max(blocksPerSequence, Math.floor(DEFAULT_MEMORY_BYTES / blockBytes));
  return { blockSize, blockCount: 1 + Math.min(wanted, fitting) };
}
