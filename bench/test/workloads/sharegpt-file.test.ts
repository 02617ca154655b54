import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MAX_DATASET_BYTES, readShareGptFile, sampleConversations } from '../../src/workloads/sharegpt-file.js';

const folder = mkdtempSync(join(tmpdir(), 'stet-sharegpt-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function write(text: string): string {
  const file = join(folder, `${files++}.json`);
  writeFileSync(file, text);
  return file;
}

function conversation(...values: readonly unknown[]): object {
  return { id: 'x', conversations: values.map((value, i) => ({ from: i % 2 === 0 ? 'human' : 'gpt', value })) };
}

/** A token a word. */
const encode = (text: string) => text.split(' ').map((_, i) => i);
const words = (count: number) => Array.from({ length: count }, (_, i) => `w${i}`).join(' ');

describe('a ShareGPT file', () => {
  it('is read by its first two turns, and what has no two is left out', () => {
    const file = write(
      JSON.stringify([
        conversation('a', 'b', 'c'),
        conversation('alone'),
        conversation('a', 5),
        { conversations: 'none' },
        null,
      ]),
    );
    expect(readShareGptFile(file)).toEqual([{ prompt: 'a', answer: 'b' }]);
  });

  it.each([
    ['{"conversations": []}', /is not an array of conversations/],
    ['[', /is no JSON/],
    ['[]', /has no conversation with two turns/],
    [JSON.stringify([conversation('alone')]), /has no conversation with two turns/],
  ])('is refused where it is %s', (text, message) => {
    const file = write(text);
    expect(() => readShareGptFile(file)).toThrow(
      expect.objectContaining({ code: 'STET_ERR_BAD_REQUEST', message: expect.stringMatching(message) }),
    );
  });

  it('is refused where there is none, and unread where it is too large', () => {
    expect(() => readShareGptFile(join(folder, 'missing.json'))).toThrow(/missing\.json cannot be read/);
    const file = write('');
    // A hole: nothing is written.
    truncateSync(file, MAX_DATASET_BYTES + 1);
    expect(() => readShareGptFile(file)).toThrow(/bytes, \d+ at most can be read: cut it/);
  });
});

describe('requests from conversations', () => {
  const sample = { count: 3, contextLength: 100, seed: 1, encode };

  it('ask the first turn for as many tokens as the second has', () => {
    const [request] = sampleConversations([{ prompt: words(7), answer: words(11) }], { ...sample, count: 1 });
    expect(request).toEqual({ promptTokens: encode(words(7)), outputTokens: 11 });
  });

  it('leave out what has less than 4 tokens on either side', () => {
    const conversations = [
      { prompt: words(3), answer: words(9) },
      { prompt: words(9), answer: words(3) },
      { prompt: words(4), answer: words(4) },
    ];
    expect(sampleConversations(conversations, sample)).toEqual(
      Array.from({ length: 3 }, () => ({ promptTokens: [0, 1, 2, 3], outputTokens: 4 })),
    );
    expect(() => sampleConversations(conversations.slice(0, 2), sample)).toThrow(/no conversation .* has 4 tokens/);
  });

  it.each([
    { prompt: 90, answer: 90, kept: [50, 50] },
    { prompt: 300, answer: 20, kept: [80, 20] },
    { prompt: 20, answer: 300, kept: [20, 80] },
    { prompt: 60, answer: 40, kept: [60, 40] },
  ])('cut $prompt and $answer tokens to a context of 100', ({ prompt, answer, kept }) => {
    const [request] = sampleConversations([{ prompt: words(prompt), answer: words(answer) }], { ...sample, count: 1 });
    expect([request!.promptTokens.length, request!.outputTokens]).toEqual(kept);
  });

  it('come in a seeded order and come again where there are too few', () => {
    const conversations = Array.from({ length: 30 }, (_, i) => ({ prompt: words(4 + i), answer: words(5) }));
    const lengths = (seed: number) =>
      sampleConversations(conversations, { ...sample, count: 60, seed }).map(({ promptTokens }) => promptTokens.length);
    expect(lengths(1)).toEqual(lengths(1));
    expect(lengths(1)).not.toEqual(lengths(2));
    expect(new Set(lengths(1).slice(0, 30)).size).toBe(30);
    expect(lengths(1).slice(30)).toEqual(lengths(1).slice(0, 30));
  });
});
