import { describe, expect, it } from 'vitest';
import { EOS, fakeEngine, readAll, spell, utf8 } from './helpers.js';

const PROMPT = 'tell me';

describe('a read with a limit', () => {
  // The text has characters of several bytes, one that stays incomplete, and a beginning of a stop string that is none.
  const output = [...utf8('Grüße 🙂 an a'), 0xc3, ...utf8('en'), 0xf0, EOS];
  const script = spell(output, utf8(PROMPT).length);
  const request = { prompt: PROMPT, deterministic: true, seed: 1, stop: ['n! ', 'aen?'], logprobs: 1 } as const;

  it('cuts commits wherever it is asked to, with the texts, hashes and log-probabilities of the tokens', async () => {
    await using fake = await fakeEngine({ script });
    const whole = await readAll(fake.engine.generate(request));
    expect(whole.tokens).toEqual(output);
    const single: { text: string; hash: string }[] = [];
    for (let cut = 1; cut < output.length; cut++) {
      const events = fake.engine.generate(request);
      let [text, hash, count] = ['', '', 0];
      const logprobs: unknown[] = [];
      for (;;) {
        const limit = count < cut ? { maxTokens: cut === 1 ? 1 : Math.min(3, cut - count) } : undefined;
        const { value: event } = await events.next(limit);
        if (event?.type === 'commit') {
          expect(event.from).toBe(count);
          expect(event.tokens).toEqual(output.slice(count, count + event.tokens.length));
          text += event.text;
          hash = event.hash;
          count += event.tokens.length;
          logprobs.push(...event.logprobs!);
          if (limit) expect(event.tokens.length).toBeLessThanOrEqual(limit.maxTokens);
          if (count === cut) single.push({ text, hash });
        } else if (event?.type === 'done') break;
      }
      expect([text, hash, logprobs]).toEqual([
        whole.text,
        whole.commits.at(-1)!.hash,
        whole.commits.flatMap((commit) => commit.logprobs!),
      ]);
    }
    // Every prefix of the output was a boundary once, and its text is one of the whole text.
    expect(single).toHaveLength(output.length - 1);
    for (const { text } of single) expect(whole.text.startsWith(text)).toBe(true);
    expect(new Set(single.map(({ hash }) => hash)).size).toBe(output.length - 1);
  });

  it('takes at least one token', async () => {
    await using fake = await fakeEngine({ script });
    const events = fake.engine.generate(request);
    expect(() => events.next({ maxTokens: 0 })).toThrow('assertion failed');
    await events.return!();
  });
});
