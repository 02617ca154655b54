import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';
import type { TestSocket } from './support/test-socket.js';

/** A small generator of pseudo-random numbers in 0 .. 1, so that a failure can be run again. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe('a thousand requests over twenty sockets', () => {
  it('all end as they should: done, cancelled or lost with their socket, and nothing is left', async () => {
    const { connect, idle, server } = await serve({}, { maxStreamsPerSocket: 8 });
    const random = mulberry(1);
    const outcomes = { done: 0, aborted: 0, lost: 0 };
    const texts = new Map<string, string>();
    const run = async (client: TestSocket, id: string) => {
      const maxTokens = 1 + Math.floor(random() * 60);
      const prompt = `prompt ${Math.floor(random() * 50)}`;
      const deterministic = random() < 0.5;
      const cancels = random() < 0.15;
      const stream = client.generate(id, { prompt, maxTokens: 60, deterministic, ...(cancels ? {} : { maxTokens }) });
      if (cancels) client.send({ type: 'cancel', id });
      const { end, text } = await stream;
      if (end!.type === 'error') {
        expect(end).toMatchObject({ code: 'STET_ERR_ABORTED' });
        outcomes.aborted++;
        return;
      }
      outcomes.done++;
      const known = texts.get(prompt) ?? '';
      expect(known.startsWith(text) || text.startsWith(known)).toBe(true);
      if (text.length > known.length) texts.set(prompt, text);
    };
    const session = async (index: number) => {
      let client = await connect();
      for (let request = 0; request < 50; request += 5) {
        const batch = [0, 1, 2, 3, 4].map((offset) => run(client, `${index}.${request + offset}`));
        if (random() < 0.1) {
          client.socket.terminate();
          const results = await Promise.allSettled(batch);
          outcomes.lost += results.filter(({ status }) => status === 'rejected').length;
          client = await connect();
        } else await Promise.all(batch);
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, index) => session(index)));
    expect(outcomes.done + outcomes.aborted + outcomes.lost).toBe(1000);
    expect(outcomes.done).toBeGreaterThan(600);
    expect(outcomes.aborted).toBeGreaterThan(50);
    expect(outcomes.lost).toBeGreaterThan(10);
    await idle();
    expect(server.stats()).toMatchObject({ sockets: 20, streams: 0 });
  });

  it('leave nothing after two hundred sockets that vanish at any moment', async () => {
    const { connect, idle, server } = await serve();
    const random = mulberry(2);
    const vanish = async (index: number) => {
      const client = await connect();
      for (let stream = 0; stream < 3; stream++)
        client.send({ type: 'generate', id: `${index}.${stream}`, prompt: 'p', maxTokens: 1000, deterministic: true });
      await new Promise((resolve) => setTimeout(resolve, random() * 30));
      if (random() < 0.5) client.raw.destroy();
      else client.socket.close();
      await client.closed;
    };
    for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 20 }, (_, index) => vanish(index)));
    await idle();
    const deadline = Date.now() + 5000;
    while (server.stats().sockets > 0 && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(server.stats()).toEqual({ sockets: 0, streams: 0, unsentBytes: 0, detachedStreams: 0, keptBytes: 0 });
  });
});
