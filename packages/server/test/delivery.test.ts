import type { ServerFrame } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { Outbox } from '../src/outbox.js';
import { ByteBudget } from '../src/streams/byte-budget.js';
import { CommitRing } from '../src/streams/commit-ring.js';
import { Delivery } from '../src/streams/delivery.js';
import { bodyOf } from '../src/streams/frame-body.js';

/** A delivery to a client that has four tokens, whose socket takes everything; and what it is sent. */
function deliveryAfterFour() {
  const frames: ServerFrame[] = [];
  const socket = {
    send(bytes: Buffer, _options: unknown, taken: () => void) {
      frames.push(JSON.parse(String(bytes)));
      taken();
    },
  };
  const outbox = new Outbox(
    socket as unknown as WebSocket,
    { highWaterBytes: 1e6, lowWaterBytes: 1, slowReaderMs: 1e6 },
    { onFull() {}, onDrained() {}, onSlow() {} },
  );
  const commits = new CommitRing(4, 1e6, new ByteBudget(1e6));
  const source = { commits, ending: undefined, onSent() {}, onCaughtUp() {}, onDelivered() {} };
  const delivery = new Delivery({ id: 'a', outbox, onEnd() {} }, source, 4);
  const commit = (from: number, tokens: number[]) => {
    const body = bodyOf({ type: 'commit', from, tokens, text: '', hash: '' });
    commits.push({ from, to: from + tokens.length, body });
    delivery.poke();
  };
  return { delivery, frames, commit };
}

const candidates = (from: number, tokens: number[]) => ({ type: 'provisional', from, tokens, text: '' }) as const;

describe('candidates of a stream that was resumed', () => {
  it('are left out after a gap, and so is what withdraws them', () => {
    const { delivery, frames } = deliveryAfterFour();
    // The engine has shown 4 and 5 to a socket that is lost.
    delivery.showCandidates(candidates(6, [66]));
    delivery.withdraw({ type: 'rollback', to: 5 });
    delivery.withdraw({ type: 'rollback', to: 4 });
    expect(frames).toEqual([]);
    delivery.close();
  });

  it('are shown again once there is no gap, and withdrawn if they were shown', async () => {
    const { delivery, frames, commit } = deliveryAfterFour();
    const ran = delivery.run();
    delivery.showCandidates(candidates(7, [77]));
    commit(4, [44, 55, 66]);
    await new Promise((resolve) => setImmediate(resolve));
    delivery.showCandidates(candidates(7, [77, 88]));
    delivery.withdraw({ type: 'rollback', to: 9 });
    delivery.withdraw({ type: 'rollback', to: 8 });
    delivery.showCandidates(candidates(8, [89]));
    expect(frames).toMatchObject([
      { id: 'a', seq: 0, type: 'commit', from: 4, tokens: [44, 55, 66] },
      { id: 'a', seq: 1, type: 'provisional', from: 7, tokens: [77, 88] },
      { id: 'a', seq: 2, type: 'rollback', to: 8 },
      { id: 'a', seq: 3, type: 'provisional', from: 8, tokens: [89] },
    ]);
    delivery.close();
    await ran;
  });
});
