import type { FakeBatchLog } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { expectEqualAnswers, feed, forward, type RowAnswer } from '../../src/conformance/drive.js';
import { type ComposedFakes, composeFakes } from './compose-fakes.js';

const TOKENS = Array.from({ length: 48 }, (_, i) => (i * 7 + 3) % 32);
const BLOCKS = Array.from({ length: 12 }, (_, i) => i + 1);
const SEQUENCE = { tokens: TOKENS, blocks: BLOCKS };

/** Positions of all sequences of each call that the fast part had since the last look. */
function callsOf({ fast }: ComposedFakes, from = 0): string[] {
  const positions = ({ sequences }: FakeBatchLog) =>
    sequences.map(({ position, tokens }) => `${position}..${position + tokens.length - 1}`).join(' ');
  return fast.log.slice(from).map(({ fast: batch }) => `${positions(batch!)} wants ${batch!.outputRows.length}`);
}

/** What the fast part answers where it ran all rows itself. */
async function fastAnswers(tokens: readonly number[]): Promise<readonly RowAnswer[]> {
  const { backend } = await composeFakes();
  return feed(backend, 'fast', { tokens, blocks: BLOCKS });
}

/** One fast row at a position of the sequence. */
async function decode({ backend }: ComposedFakes, position: number, sequence = SEQUENCE) {
  const { tokens, blocks } = sequence;
  const { fast } = await forward(backend, { fast: [{ tokens: [tokens[position]!], position, blocks }] });
  return fast[0]!;
}

describe('feeding the fast part', () => {
  it('happens in batches of at most maxRows without outputs, and the rest rides with the rows that need it', async () => {
    const fakes = await composeFakes({ maxRows: 16 });
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 37 });
    expect(callsOf(fakes)).toEqual([]);
    const answers = await decode(fakes, 37);
    expect(callsOf(fakes)).toEqual(['0..15 wants 0', '16..31 wants 0', '32..37 wants 1']);
    expectEqualAnswers(answers, await fastAnswers(TOKENS), 'after feeding');
  });

  it('happens once', async () => {
    const fakes = await composeFakes({ maxRows: 16 });
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 20 });
    for (const position of [20, 21, 22]) await decode(fakes, position);
    expect(callsOf(fakes)).toEqual(['0..15 wants 0', '16..20 wants 1', '21..21 wants 1', '22..22 wants 1']);
  });

  it('repeats no row that a window verified: of one that matched the last candidate alone is fed', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'fast', SEQUENCE, { end: 10 });
    const canonical = await composeFakes();
    await feed(canonical.backend, 'canonical', SEQUENCE, { end: 10 });
    for (const position of [10, 11, 12, 13]) await decode(canonical, position);
    const before = canonical.fast.log.length;
    // Rows of the last committed token and of four candidates, of which the last has no K/V yet.
    await feed(canonical.backend, 'canonical', SEQUENCE, { first: 10, end: 15 });
    const answers = await decode(canonical, 15);
    expect(callsOf(canonical, before)).toEqual(['14..15 wants 1']);
    expectEqualAnswers(answers, await fastAnswers(TOKENS), 'after the window');
  });

  it('begins where wrong candidates were', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 10 });
    const wrong = { ...SEQUENCE, tokens: TOKENS.map((token, i) => (i > 11 ? (token + 1) % 32 : token)) };
    for (const position of [10, 11, 12, 13, 14]) await decode(fakes, position, wrong);
    const before = fakes.fast.log.length;
    await feed(fakes.backend, 'canonical', SEQUENCE, { first: 10, end: 14 });
    const answers = await decode(fakes, 14);
    expect(callsOf(fakes, before)).toEqual(['12..14 wants 1']);
    expectEqualAnswers(answers, await fastAnswers(TOKENS), 'after the rollback');
  });

  it('fills gaps one after the other', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'fast', SEQUENCE, { end: 12 });
    const changed = TOKENS.map((token, i) => (i === 3 ? (token + 1) % 32 : token));
    const sequence = { ...SEQUENCE, tokens: changed };
    await feed(fakes.backend, 'canonical', sequence, { end: 14 });
    const before = fakes.fast.log.length;
    const answers = await decode(fakes, 14, sequence);
    // From position 3 on every token stands after others than before.
    expect(callsOf(fakes, before)).toEqual(['3..14 wants 1']);
    expectEqualAnswers(answers, await fastAnswers(changed), 'after a change');
    // Nothing but positions 5 and 6 is gone, with the block that holds them.
    fakes.fast.failNext();
    const overwriting = { tokens: [1], position: 4, blocks: [1, 2] };
    await expect(forward(fakes.backend, { fast: [overwriting] })).rejects.toMatchObject({
      code: 'STET_ERR_BACKEND_FAILED',
    });
    await feed(fakes.backend, 'canonical', sequence, { first: 4, end: 5 });
    await feed(fakes.backend, 'canonical', sequence, { first: 14, end: 15 });
    const again = fakes.fast.log.length;
    const last = await decode(fakes, 15, sequence);
    expect(callsOf(fakes, again)).toEqual(['4..7 wants 0', '15..15 wants 1']);
    expectEqualAnswers(last, await fastAnswers(changed), 'after a failure');
  });

  it('feeds blocks that several sequences share once', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 8 });
    const ends = [5, 6, 7];
    const { fast } = await forward(fakes.backend, {
      fast: ends.map((token, i) => ({ tokens: [token], position: 8, blocks: [1, 2, 20 + i] })),
    });
    expect(callsOf(fakes)).toEqual(['0..7 wants 0', '8..8 8..8 8..8 wants 3']);
    for (const [i, answers] of fast.entries()) {
      expectEqualAnswers(answers, await fastAnswers([...TOKENS.slice(0, 8), ends[i]!]), `sequence ${i}`);
    }
  });

  it('joins what several sequences lack into one call, and finds every output', async () => {
    const fakes = await composeFakes();
    const others = TOKENS.map((token) => (token * 3 + 1) % 32);
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 5 });
    await feed(fakes.backend, 'canonical', { tokens: others, blocks: [20, 21] }, { end: 3 });
    const { fast } = await forward(fakes.backend, {
      fast: [
        { tokens: TOKENS.slice(5, 7), position: 5, blocks: [1, 2], want: ['none', 'logits'] },
        { tokens: TOKENS.slice(0, 2), position: 0, blocks: [30], want: ['argmax', 'logits'] },
        { tokens: others.slice(3, 5), position: 3, blocks: [20, 21], want: ['logits', 'argmax'] },
      ],
    });
    expect(callsOf(fakes)).toEqual(['0..6 0..1 0..4 wants 5']);
    expectEqualAnswers(fast[0]!, await fastAnswers(TOKENS), 'first');
    expectEqualAnswers(fast[1]!, await fastAnswers(TOKENS), 'second');
    expectEqualAnswers(fast[2]!, await fastAnswers(others), 'third');
    expect(fast.map((answers) => answers.map((answer) => answer?.position))).toEqual([
      [undefined, 6],
      [0, 1],
      [3, 4],
    ]);
  });

  it('goes on after it failed half way, in sequences that share the blocks too', async () => {
    const fakes = await composeFakes({ maxRows: 8 });
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 16 });
    await decode(fakes, 16);
    await feed(fakes.backend, 'canonical', { tokens: TOKENS.toReversed(), blocks: [20, 21, 22, 23] }, { end: 16 });
    fakes.fast.failNext();
    const sharing = { tokens: TOKENS, blocks: [1, 2, 3, 4, 30] };
    const failing = { tokens: [9], position: 16, blocks: [20, 21, 22, 23, 24] };
    await expect(forward(fakes.backend, { fast: [failing] })).rejects.toMatchObject({
      code: 'STET_ERR_BACKEND_FAILED',
    });
    expectEqualAnswers(await decode(fakes, 16, sharing), await fastAnswers(TOKENS), 'who shares other blocks');
    const { fast } = await forward(fakes.backend, { fast: [failing] });
    const expected = await fastAnswers([...TOKENS.toReversed().slice(0, 16), 9]);
    expectEqualAnswers(fast[0]!, expected, 'the one that failed, tried again');
  });

  it('costs a canonical batch nothing', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'fast', { tokens: TOKENS, blocks: [20, 21, 22] }, { end: 12 });
    const before = fakes.fast.log.length;
    await feed(fakes.backend, 'canonical', SEQUENCE);
    expect(fakes.fast.log.length).toBe(before);
    expect(fakes.canonical.log.every(({ fast }) => fast === undefined)).toBe(true);
  });
});

describe('a composed backend refuses', () => {
  it('canonical rows that attend to K/V of the fast schedule, and writes nothing', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 6 });
    await feed(fakes.backend, 'fast', SEQUENCE, { first: 6, end: 8 });
    const steps = [fakes.fast.stepCount, fakes.canonical.stepCount];
    const canonical = [{ tokens: [1], position: 8, blocks: BLOCKS }];
    const fast = [{ tokens: [1], position: 0, blocks: [30] }];
    await expect(forward(fakes.backend, { canonical, fast })).rejects.toMatchObject({
      code: 'STET_ERR_BAD_BATCH',
      message: 'canonical: sequence 0 attends to position 6, which the fast schedule wrote',
    });
    expect([fakes.fast.stepCount, fakes.canonical.stepCount]).toEqual(steps);
    await feed(fakes.backend, 'canonical', SEQUENCE, { first: 6 });
  });

  it('fast rows behind lacking K/V whose own beginning was overwritten', async () => {
    const fakes = await composeFakes();
    await feed(fakes.backend, 'canonical', SEQUENCE, { end: 10 });
    await forward(fakes.backend, { canonical: [{ tokens: [31], position: 2, blocks: BLOCKS }] });
    await expect(decode(fakes, 10)).rejects.toMatchObject({
      code: 'STET_ERR_BAD_BATCH',
      message: 'fast: what stands before position 3 of sequence 0 is not what it was computed after',
    });
    expect(fakes.fast.stepCount).toBe(0);
  });
});
