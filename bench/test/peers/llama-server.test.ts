import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Crowd } from '../../src/peers/crowds.js';
import { parseCompletion, startLlamaServer } from '../../src/peers/llama-server.js';

const program = fileURLToPath(new URL('fake-llama-server.mjs', import.meta.url));
const options = { program, model: 'm.gguf', threads: 2, slotPositions: 100 };
const crowdOf = (first: number, neighbour: number): Crowd => ({
  target: { promptTokens: [first], outputTokens: 3 },
  lanes: [
    { kind: 'target' },
    { kind: 'neighbour', requests: [{ promptTokens: [neighbour], outputTokens: 2, deterministic: false }] },
    { kind: 'target' },
  ],
});

describe("llama.cpp's server", { timeout: 30_000 }, () => {
  it('is waited for, answers a crowd, lets go of a neighbour that still writes, and ends', async () => {
    const server = await startLlamaServer(options);
    try {
      expect(await server.answer(crowdOf(7, 0))).toEqual([
        [7, 8, 9],
        [7, 8, 9],
      ]);
      expect(await server.answer(crowdOf(5, 4))).toEqual([
        [5, 6, 7],
        [5, 6, 7],
      ]);
    } finally {
      await server.close();
    }
    await expect(server.answer(crowdOf(7, 1))).rejects.toThrow('llama-server ended with SIGTERM');
  });

  it('fails with its last word where it cannot begin', async () => {
    const broken = { ...options, model: 'broken.gguf' };
    await expect(startLlamaServer(broken)).rejects.toThrow('llama-server ended with 1: failed to load model');
    await expect(startLlamaServer({ ...options, program: '/nowhere' })).rejects.toThrow('there is no /nowhere');
  });

  it('fails, and does not hang, where it ends in the middle', async () => {
    const server = await startLlamaServer(options);
    try {
      await expect(server.answer(crowdOf(666, 0))).rejects.toThrow('llama-server ended with 3');
    } finally {
      await server.close();
    }
  });

  it('is not believed where it answers something else', () => {
    expect(parseCompletion({ tokens: [1, 2] }, 2)).toEqual([1, 2]);
    for (const body of [null, 'no', {}, { tokens: [1] }, { tokens: [1, '2'] }, { tokens: 'ab' }])
      expect(() => parseCompletion(body, 2)).toThrow(/expected 2 tokens/);
  });
});
