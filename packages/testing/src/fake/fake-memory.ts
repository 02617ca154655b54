import { assert } from '@stet/backend';
import { mix32 } from '../hash.js';
import { CANDIDATE_BIT } from './toy-model.js';

/** Paged K/V of a fake: one word and one token per position of every block. Starts as garbage, as device memory does. */
export interface FakeMemory {
  readonly words: Int32Array;
  readonly tokens: Int32Array;
  readonly blockSize: number;
  readonly blockCount: number;
}

export function fakeMemory(blockCount: number, blockSize: number): FakeMemory {
  const size = blockCount * blockSize;
  const memory = { words: new Int32Array(size), tokens: new Int32Array(size), blockSize, blockCount };
  for (let block = 0; block < blockCount; block++) fillWithGarbage(memory, block, 0);
  return memory;
}

/** Overwrites a block with words that no sequence wrote; none of them looks like a candidate's. */
export function fillWithGarbage(memory: FakeMemory, block: number, salt: number): void {
  assert(Number.isInteger(block) && block >= 0 && block < memory.blockCount, `block ${block} exists`);
  for (let offset = 0; offset < memory.blockSize; offset++) {
    const at = block * memory.blockSize + offset;
    memory.words[at] = mix32(mix32(0xdead, salt), at) & ~CANDIDATE_BIT;
    memory.tokens[at] = -1;
  }
}

export function memoryBytes(memory: FakeMemory): number {
  return memory.words.byteLength + memory.tokens.byteLength;
}
