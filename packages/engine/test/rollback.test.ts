import type { Schedule } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { EOS, fakeEngine, logprobBits, readAll, utf8 } from './helpers.js';

const PROMPT = utf8('p: ');

/** Spells `canonical`; the fast schedule spells `fast` instead as long as what stands before agrees with the canonical text. */
function twoMinds(canonical: readonly number[], fast: readonly number[]) {
  return (context: readonly number[], schedule: Schedule) =>
    (schedule === 'fast' ? fast : canonical)[context.length - PROMPT.length];
}

async function answerOf(canonical: readonly number[], fast: readonly number[], stop: readonly string[] = []) {
  await using fake = await fakeEngine({ script: twoMinds(canonical, fast) });
  const answer = await readAll(
    fake.engine.generate({ promptTokens: PROMPT, deterministic: true, stop, logprobs: 0, maxTokens: canonical.length }),
  );
  expect(answer.logprobs.map(({ token }) => token)).toEqual(answer.tokens);
  expect(fake.engine.stats().blocks.held).toBe(0);
  return answer;
}

const at = (tokens: readonly number[], index: number, token: number) => tokens.map((t, i) => (i === index ? token : t));

describe('a rollback', () => {
  const text = 'the cat sat on the mat';
  const output = [...utf8(text), EOS];

  it('takes back a false end of text at any place, and a stop string then ends the answer', async () => {
    for (let index = 1; index < 15; index++) {
      const answer = await answerOf(output, at(output, index, EOS), ['on t']);
      expect(answer).toMatchObject({ text: 'the cat sat ', tokens: utf8('the cat sat on t') });
      expect(answer.done).toMatchObject({ finishReason: 'stop', stats: { rollbacks: 1 } });
    }
  });

  it('takes back a false stop string at any place', async () => {
    let rollbacks = 0;
    for (let index = 1; index < 20; index++) {
      const answer = await answerOf(output, at(output, index, utf8('#')[0]!), ['#']);
      expect(answer).toMatchObject({ text, tokens: output });
      rollbacks += answer.done.stats.rollbacks;
    }
    // The token after a window that matched comes from the verifier itself; every other one was a candidate.
    expect(rollbacks).toBe(18);
  });

  it('may correct to the token that completes a stop string, wherever the string begins', async () => {
    for (const stop of ['cat', 'e c', 'sat', ' ']) {
      const end = text.indexOf(stop) + stop.length;
      const answer = await answerOf(output, at(output, end - 1, utf8('!')[0]!), [stop]);
      expect(answer).toMatchObject({ text: text.slice(0, end - stop.length), tokens: output.slice(0, end) });
      expect(answer.done).toMatchObject({ finishReason: 'stop', stats: { rollbacks: 1 } });
    }
  });

  it('may break a stop string that the candidates had begun', async () => {
    const answer = await answerOf(output, utf8('the cab sat on the mat'), ['cab']);
    expect(answer.text).toBe(text);
  });

  it('may correct to the end of text', async () => {
    for (const length of [1, 2, 5, 17]) {
      const ended = [...output.slice(0, length), EOS];
      const answer = await answerOf(ended, output);
      expect(answer).toMatchObject({ text: text.slice(0, length), tokens: ended, done: { finishReason: 'stop' } });
    }
  });

  it('23. never splits a character, though it falls between its bytes', async () => {
    const canonical = [...utf8('a🙂b€c'), EOS];
    for (let index = 1; index < canonical.length - 1; index++) {
      const answer = await answerOf(canonical, at(canonical, index, utf8('x')[0]!));
      expect(answer.text).toBe('a🙂b€c');
      for (const { text: piece } of answer.commits) expect(piece).not.toContain('\uFFFD');
    }
  });

  it('changes neither tokens, text, hash nor a bit of the log-probabilities, whatever the mismatch rate', async () => {
    const answers = [];
    for (const mismatchRate of [0, 0.01, 0.5, 1]) {
      await using fake = await fakeEngine({ mismatchRate });
      const stream = fake.engine.generate({
        ...{ promptTokens: PROMPT, deterministic: true, seed: 3, temperature: 0.8, topP: 0.9, frequencyPenalty: 0.3 },
        ...{ logitBias: { 17: -2 }, logprobs: 4, maxTokens: 100, ignoreEos: true },
      });
      answers.push(await readAll(stream));
    }
    const [first, ...others] = answers;
    for (const other of others) {
      expect(other.tokens).toEqual(first!.tokens);
      expect(other.text).toBe(first!.text);
      expect(other.hash).toBe(first!.hash);
      expect(logprobBits(other)).toEqual(logprobBits(first!));
    }
    expect(answers.at(-1)!.done.stats.rollbacks).toBeGreaterThan(10);
  });

  it('is not caused and not felt by a crowd: equal bits alone and among random others', async () => {
    const bits = new Set<string>();
    for (const crowd of [0, 10, 40]) {
      await using fake = await fakeEngine({ mismatchRate: 0.1, engine: { kv: { blockCount: 120 } } });
      const others = Array.from({ length: crowd }, (_, i) =>
        readAll(
          fake.engine.generate({
            promptTokens: Array.from({ length: 1 + ((i * 7) % 40) }, (_, j) => (i * 31 + j) % 256),
            maxTokens: 5 + ((i * 13) % 60),
            temperature: (i % 3) / 2,
            deterministic: i % 4 === 0,
            ignoreEos: true,
          }),
        ),
      );
      const answer = await readAll(
        fake.engine.generate({
          ...{ promptTokens: PROMPT, deterministic: true, seed: 9, temperature: 1, logprobs: 3 },
          ...{ maxTokens: 80, ignoreEos: true },
        }),
      );
      await Promise.all(others);
      bits.add(JSON.stringify([answer.tokens, answer.text, answer.hash, logprobBits(answer)]));
      expect(fake.engine.stats().blocks.held).toBe(0);
    }
    expect(bits.size).toBe(1);
  });
});
