import { connect } from '@stet/client';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CreditWindow } from '../src/credit-window.js';
import { connected, waitFor } from './harness.js';
import { read } from './support/read.js';
import { acceptedFrame, commitFrame, doneFrame, scriptedServer } from './support/scripted-server.js';

describe('a client with credit', () => {
  it('pauses the server while nobody reads, and gets all the same everything', async () => {
    const options = { contextLength: 10_000, maxUnreadTokens: 16 };
    const { client, engine } = await connected(options, {}, { creditTokens: 32 });
    const request = { prompt: 'p', maxTokens: 3000 };
    const stream = client.generate(request);
    expect((await stream.next()).value).toMatchObject({ type: 'accepted' });
    await waitFor(() => engine.stats().committedTokens >= 32, 'the tokens that may come');
    await new Promise((resolve) => setTimeout(resolve, 150));
    const paused = engine.stats();
    // What may be sent, one that was read to see whether there is more, and what the engine keeps unread.
    expect(paused.committedTokens).toBeLessThanOrEqual(32 + 1 + 16 + 1);
    expect(paused.running).toBe(1);
    const other = await read(client.generate({ prompt: 'q', maxTokens: 100 }));
    expect(other.error).toBeUndefined();
    const reading = await read(stream);
    expect(reading.error).toBeUndefined();
    expect(reading.tokens).toHaveLength(3000);
    const { client: free } = await connected(options);
    expect((await read(free.generate(request))).text).toBe(reading.text);
  });

  it('gives as much as was read, half a window at once, and anew on another connection', async () => {
    const { url, peers } = await scriptedServer(
      ({ id, type, n }, peer) => {
        if (type === 'generate') peer.send(id, acceptedFrame(), commitFrame(0, 3));
        if (type === 'credit' && n === 3) {
          peer.send(id, commitFrame(3, 5));
          setTimeout(() => peer.socket.terminate(), 20);
        }
      },
      ({ id, type }, peer) => {
        if (type === 'resume') peer.send(id, acceptedFrame({ after: 5 }), commitFrame(5, 9));
        if (type === 'credit') peer.send(id, doneFrame(9));
      },
    );
    await using client = await connect(url, { creditTokens: 4, reconnect: { initialDelayMs: 1 } });
    const stream = client.generate({ prompt: 'p' });
    const next = async () => (await stream.next()).value;
    expect(await next()).toMatchObject({ type: 'accepted' });
    expect(await next()).toMatchObject({ tokens: [0, 1, 2] });
    // Two that nobody has read come before the connection is lost.
    await waitFor(() => peers.length === 2 && peers[1]!.received.length > 0, 'the resume');
    expect(await next()).toMatchObject({ from: 3 });
    const rest = await read(stream);
    expect(rest.error).toBeUndefined();
    expect(peers[0]!.received).toMatchObject([
      { type: 'generate', credit: 4 },
      { type: 'credit', id: '1', n: 3 },
    ]);
    expect(peers[1]!.received[0]).toMatchObject({ type: 'resume', after: 5, credit: 2 });
    expect(peers[1]!.received.slice(1).every(({ type }) => type === 'credit')).toBe(true);
  });
});

describe('a window of credit', () => {
  it('never lets more come than it holds, and never lets a reader wait in vain', () => {
    const steps = fc.array(fc.record({ act: fc.constantFrom('receive', 'read', 'reconnect'), n: fc.nat(20) }));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), steps, (windowTokens, acts) => {
        const window = new CreditWindow(windowTokens);
        let open = window.start();
        let unread = 0;
        for (const { act, n } of acts) {
          if (act === 'receive') {
            const tokenCount = Math.min(n, open);
            window.onReceived(tokenCount);
            open -= tokenCount;
            unread += tokenCount;
          } else if (act === 'read') {
            const tokenCount = Math.min(n, unread);
            open += window.onRead(tokenCount);
            unread -= tokenCount;
          } else open = window.start();
          // A connection that begins gets one token at least.
          expect(open + unread).toBeLessThanOrEqual(windowTokens + acts.length);
        }
        open += window.onRead(unread);
        expect(open).toBeGreaterThan(0);
        expect(open).toBeLessThanOrEqual(windowTokens);
      }),
    );
  });
});
