import { createHash } from 'node:crypto';
import { fakeContinuation } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { EOS, type FakeEngine, fakeEngine, readAll, spell, until, utf8 } from './helpers.js';

const PROMPT = 'tell me';
const promptLength = utf8(PROMPT).length;

function hashOf(tokens: readonly number[]): string {
  let digest = createHash('sha256').update('stet output 1').digest();
  for (const token of tokens) {
    const id = Buffer.alloc(4);
    id.writeUInt32LE(token);
    digest = createHash('sha256').update(digest).update(id).digest();
  }
  return digest.toString('hex');
}

/** All blocks are free or cached, and no request is left. */
function expectIdle({ engine }: FakeEngine): void {
  const { running, waiting, blocks } = engine.stats();
  expect({ running, waiting, held: blocks.held }).toEqual({ running: 0, waiting: 0, held: 0 });
  expect(blocks.free + blocks.cached).toBe(blocks.total);
}

describe('generate', () => {
  it('says first what it will use, then streams commits that join up, then what it used', async () => {
    await using fake = await fakeEngine({ script: spell([...utf8('Grüße 🙂'), EOS], promptLength) });
    const answer = await readAll(fake.engine.generate({ prompt: PROMPT, seed: 7 }));
    expect(answer.accepted).toEqual({
      type: 'accepted',
      fingerprint: fake.engine.info.fingerprint,
      seed: 7,
      promptTokens: promptLength,
      params: {
        ...{ maxTokens: 256 - promptLength, deterministic: false, temperature: 0, topK: 0, topP: 1, minP: 0 },
        ...{ frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1, logitBias: {}, stop: [] },
        ...{ provisional: false, priority: 0, ignoreEos: false },
      },
    });
    let from = 0;
    for (const commit of answer.commits) {
      expect(commit.from).toBe(from);
      from += commit.tokens.length;
      expect(commit.hash).toBe(hashOf(answer.tokens.slice(0, from)));
    }
    expect(answer.tokens).toEqual([...utf8('Grüße 🙂'), EOS]);
    expect(answer.text).toBe('Grüße 🙂');
    expect(answer.done).toMatchObject({
      finishReason: 'stop',
      usage: { promptTokens: promptLength, completionTokens: from, totalTokens: promptLength + from },
    });
    expect(answer.done.receipt).toBeUndefined();
    expectIdle(fake);
  });

  it('gives a deterministic answer the receipt that its tokens and prompt have', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.3 });
    const answer = await readAll(
      fake.engine.generate({ promptTokens: [1, 2, 3], deterministic: true, seed: 5, maxTokens: 40, ignoreEos: true }),
    );
    expect(answer.tokens).toEqual(fakeContinuation([1, 2, 3], 40, undefined, { vocabSize: 257 }));
    const prompt = Buffer.concat([Buffer.from('stet prompt 1'), Buffer.from(new Int32Array([1, 2, 3]).buffer)]);
    expect(answer.done.receipt).toEqual({
      fingerprint: fake.engine.info.fingerprint,
      numerics: 'stet-1',
      level: 'portable',
      seed: 5,
      promptHash: createHash('sha256').update(prompt).digest('hex'),
      outputHash: hashOf(answer.tokens),
      outputTokens: 40,
    });
    expect(answer.done.stats.windows).toBeGreaterThan(0);
  });

  it('ends at maxTokens, one token included, with the bytes that wait written as U+FFFD', async () => {
    await using fake = await fakeEngine({ script: spell(utf8('é'), promptLength) });
    for (const deterministic of [false, true]) {
      const answer = await readAll(fake.engine.generate({ prompt: PROMPT, maxTokens: 1, deterministic }));
      expect(answer).toMatchObject({ text: '\uFFFD', tokens: utf8('é').slice(0, 1), done: { finishReason: 'length' } });
      expect(answer.commits.map((commit) => commit.text)).toEqual(['\uFFFD']);
    }
  });

  it('lets text, ids and log-probabilities end together at a stop string', async () => {
    const output = utf8('one two three');
    for (const deterministic of [false, true]) {
      await using fake = await fakeEngine({
        script: spell(output, promptLength),
        mismatchRate: deterministic ? 0.5 : 0,
      });
      const answer = await readAll(
        fake.engine.generate({ prompt: PROMPT, stop: ['two', 'zzz'], logprobs: 1, deterministic, maxTokens: 60 }),
      );
      expect(answer).toMatchObject({ text: 'one ', tokens: utf8('one two'), done: { finishReason: 'stop' } });
      expect(answer.logprobs.map(({ token }) => token)).toEqual(answer.tokens);
      expect(answer.logprobs.map(({ text }) => text).join('')).toBe('one two');
      expect(answer.done.usage.completionTokens).toBe(answer.tokens.length);
      expectIdle(fake);
    }
  });

  it('continues where a prompt ends inside a character', async () => {
    const [first, ...rest] = utf8('🙂');
    await using fake = await fakeEngine({ script: spell([...rest, EOS], 1) });
    expect((await readAll(fake.engine.generate({ promptTokens: [first!] }))).text).toBe('🙂');
  });

  it('22. draws a fresh seed where none is given, and repeats with the one it returned', async () => {
    await using fake = await fakeEngine();
    const request = { prompt: PROMPT, temperature: 1, maxTokens: 30, ignoreEos: true };
    const [a, b] = await Promise.all([readAll(fake.engine.generate(request)), readAll(fake.engine.generate(request))]);
    expect(a.accepted.seed).not.toBe(b.accepted.seed);
    expect(a.tokens).not.toEqual(b.tokens);
    const [c, d] = await Promise.all(
      [0, 1].map(() => readAll(fake.engine.generate({ ...request, deterministic: true, seed: a.accepted.seed }))),
    );
    expect(c!.tokens).toEqual(d!.tokens);
  });

  it('takes messages through the chat template of the model', async () => {
    await using fake = await fakeEngine({
      model: {
        chatTemplate: {
          sources: new Map(),
          render: ({ messages }) => messages.map((m) => `${m.role}:${m.content}`).join('|'),
        },
      },
      script: spell([...utf8('hi'), EOS], 'user:yo|'.length - 1),
    });
    expect((await readAll(fake.engine.generate({ messages: [{ role: 'user', content: 'yo' }] }))).text).toBe('hi');
  });

  it('works by token ids alone where the model has no tokenizer', async () => {
    await using fake = await fakeEngine({ model: { tokenizer: undefined as never } });
    const answer = await readAll(fake.engine.generate({ promptTokens: [1], maxTokens: 5, ignoreEos: true }));
    expect(answer).toMatchObject({ text: '', done: { usage: { completionTokens: 5 } } });
    await expect(readAll(fake.engine.generate({ prompt: 'text' }))).rejects.toMatchObject({
      code: 'STET_ERR_BAD_TOKENIZER',
    });
  });
});

describe('a stream', () => {
  const request = { prompt: PROMPT, deterministic: true, maxTokens: 120, ignoreEos: true, logprobs: 2 } as const;

  it('is the same answer read as many frames or as one', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.2, engine: { limits: { maxUnreadTokens: 1000 } } });
    const many = await readAll(fake.engine.generate(request));
    const unread = fake.engine.generate(request);
    await until(() => fake.engine.stats().running === 0 && fake.engine.stats().waiting === 0, 'the request has ended');
    const one = await readAll(unread);
    expect(one.commits.length).toBe(1);
    expect(many.commits.length).toBeGreaterThan(5);
    expect({ ...one, events: [], commits: [], done: one.done.usage }).toEqual({
      ...many,
      ...{ events: [], commits: [], done: many.done.usage },
      accepted: { ...many.accepted, seed: one.accepted.seed },
    });
  });

  it('with provisional candidates ends on the same screen as the committed answer', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.2 });
    const plain = await readAll(fake.engine.generate(request));
    const stream = fake.engine.generate({ ...request, provisional: true });
    const screen: number[] = [];
    const seen = { provisional: 0, rollback: 0 };
    let committed = 0;
    for await (const event of stream) {
      if (event.type === 'provisional') {
        expect(event.from).toBe(screen.length);
        screen.push(...event.tokens);
        seen.provisional++;
      } else if (event.type === 'rollback') {
        expect(event.to).toBeGreaterThanOrEqual(committed);
        screen.length = Math.min(screen.length, event.to);
        seen.rollback++;
      } else if (event.type === 'commit') {
        expect(event.from).toBe(committed);
        committed += event.tokens.length;
        // What was shown and is now final was shown right.
        expect(event.tokens.slice(0, Math.max(0, screen.length - event.from))).toEqual(
          screen.slice(event.from, committed),
        );
        screen.splice(event.from, event.tokens.length, ...event.tokens);
      }
    }
    expect(screen).toEqual(plain.tokens);
    expect(seen.provisional).toBeGreaterThan(0);
    expect(seen.rollback).toBeGreaterThan(0);
  });

  it('that nobody reads pauses at the limit while the others go on, and loses nothing', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.2, engine: { limits: { maxUnreadTokens: 8 } } });
    const expected = fakeContinuation(utf8(PROMPT), 120, undefined, { vocabSize: 257 });
    for (const deterministic of [true, false]) {
      const slow = fake.engine.generate({ ...request, deterministic });
      await slow.next();
      const others = await Promise.all([1, 2].map(() => readAll(fake.engine.generate(request))));
      for (const other of others) expect(other.tokens).toEqual(expected);
      await until(() => fake.engine.stats().running === 1, 'only the slow one is left');
      const stepsBefore = fake.engine.stats().steps;
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(fake.engine.stats().steps).toBe(stepsBefore);
      const rest = await readAll(slow);
      expect(rest.commits[0]!.tokens.length).toBeGreaterThanOrEqual(8);
      expect(rest.commits[0]!.tokens.length).toBeLessThan(8 + 32);
      expect(rest.tokens.length).toBe(120);
      if (deterministic) expect(rest.tokens).toEqual(expected);
    }
    expectIdle(fake);
  });

  it('answers several calls of next at once, in order', async () => {
    await using fake = await fakeEngine({ script: spell([...utf8('abc'), EOS], promptLength) });
    const stream = fake.engine.generate({ prompt: PROMPT });
    const results = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(() => stream.next()));
    const events = results.filter((result) => !result.done).map((result) => result.value);
    expect(events[0]!.type).toBe('accepted');
    expect(events.at(-1)!.type).toBe('done');
    expect(results.at(-1)!.done).toBe(true);
  });

  it('leaves timers and sockets their turn between steps', async () => {
    await using fake = await fakeEngine();
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const answers = await Promise.all([1, 2, 3, 4].map(() => readAll(fake.engine.generate(request))));
    clearInterval(timer);
    expect(answers.length).toBe(4);
    expect(ticks).toBeGreaterThan(3);
  });
});
