import { HashChain } from '@stet/engine';
import type { CommitFrame, StreamFrame } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { StreamChecker, Transcript, Violation } from '../../src/load/stream-checker.js';

const params = {} as Extract<StreamFrame, { type: 'accepted' }>['params'];
const accepted: StreamFrame = {
  ...{ type: 'accepted', id: '1', seq: 0, stream: 's', fingerprint: 'f', seed: 1, promptTokens: 1, params },
};

function hashOf(tokens: readonly number[]): string {
  const chain = new HashChain();
  for (const token of tokens) chain.push(token);
  return chain.hex;
}

const all = [5, 6, 7, 8];
const commit = (seq: number, from: number, to: number): CommitFrame => ({
  ...{ type: 'commit', id: '1', seq, from, tokens: all.slice(from, to), text: 'x', hash: hashOf(all.slice(0, to)) },
});
const done = (seq: number, completionTokens: number, outputHash = hashOf(all)): StreamFrame =>
  ({
    ...{ type: 'done', id: '1', seq, finishReason: 'length', usage: { completionTokens } },
    receipt: { outputHash, outputTokens: completionTokens },
  }) as StreamFrame;

/** What the checker says of the first frame that it does not take. */
function verdict(frames: readonly StreamFrame[], transcript = new Transcript()): string | undefined {
  const checker = new StreamChecker(transcript);
  try {
    for (const frame of frames) checker.observe(frame);
  } catch (error) {
    if (error instanceof Violation) return `${error.kind}: ${error.message}`;
    throw error;
  }
  return undefined;
}

describe('a checker of a stream', () => {
  it('takes a stream that keeps every rule, with candidates and without', () => {
    expect(verdict([accepted, commit(1, 0, 1), commit(2, 1, 4), done(3, 4)])).toBeUndefined();
    const candidates: StreamFrame[] = [
      accepted,
      { type: 'provisional', id: '1', seq: 1, from: 0, tokens: [5, 6], text: '' },
      { type: 'provisional', id: '1', seq: 2, from: 2, tokens: [9], text: '' },
      { type: 'rollback', id: '1', seq: 3, to: 1 },
      { type: 'provisional', id: '1', seq: 4, from: 1, tokens: [6], text: '' },
      commit(5, 0, 4),
      done(6, 4),
    ];
    expect(verdict(candidates)).toBeUndefined();
  });

  it('finds frames that are lost, come twice or come late', () => {
    expect(verdict([accepted, commit(2, 0, 1)])).toBe('lost: seq is 2, expected 1');
    expect(verdict([accepted, commit(1, 1, 2)])).toBe('lost: from of a commit is 1, expected 0');
    expect(verdict([accepted, commit(1, 0, 2), commit(1, 0, 2)])).toBe('reordered: seq is 1, expected 2');
    expect(verdict([accepted, commit(1, 0, 2), commit(2, 1, 2)])).toBe('reordered: from of a commit is 1, expected 2');
    expect(verdict([accepted, commit(1, 0, 2), done(2, 4)])).toBe('lost: done counts 4 tokens, and 2 came');
    expect(verdict([accepted, commit(1, 0, 4), done(2, 4), commit(3, 4, 4)])).toMatch(/^reordered: .* last frame/);
  });

  it('finds what is not so: a hash, a receipt, a place, a candidate', () => {
    expect(verdict([accepted, { ...commit(1, 0, 2), hash: hashOf([5]) }])).toBe(
      'wrong: hash of 2 tokens is not theirs',
    );
    expect(verdict([accepted, commit(1, 0, 4), done(2, 4, 'other')])).toMatch(/^wrong: the receipt/);
    expect(verdict([{ ...commit(0, 0, 2) }])).toBe('wrong: frame 0 is commit');
    expect(verdict([accepted, { ...accepted, seq: 1 }])).toBe('wrong: frame 1 is accepted');
    expect(verdict([accepted, commit(1, 0, 2), { type: 'rollback', id: '1', seq: 2, to: 1 }])).toMatch(
      /^wrong: a rollback/,
    );
    const gap: StreamFrame = { type: 'provisional', id: '1', seq: 1, from: 1, tokens: [6], text: '' };
    expect(verdict([accepted, gap])).toBe('lost: from of a provisional is 1, expected 0');
  });

  it('goes on with a transcript where another stream left it, with one hash over all', () => {
    const transcript = new Transcript();
    expect(verdict([accepted, commit(1, 0, 2)], transcript)).toBeUndefined();
    expect(verdict([accepted], transcript)).toBe('wrong: after is undefined, not 2');
    expect(verdict([{ ...accepted, after: 2 }, commit(1, 2, 4), done(2, 4)], transcript)).toBeUndefined();
    expect(transcript).toMatchObject({ tokenCount: 4, text: 'xx', hash: hashOf(all) });
  });
});
