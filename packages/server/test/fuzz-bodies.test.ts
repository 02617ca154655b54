import { fc } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { backendName, talesServers } from './support/tales-server.js';

/** `STET_FUZZ_RUNS=10000 npx vitest run packages/server/test/fuzz-bodies.test.ts` looks longer. */
const numRuns = Number(process.env.STET_FUZZ_RUNS ?? 40);
const timeout = Math.max(60_000, numRuns * 2_000);

const tales = talesServers();

const field = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(-1, 0, 1, 2, 0.5, 1e308, 2 ** 53, '', 'a', ' ', [], {}, null, true, false),
  fc.constantFrom([''], [0], [[0]], [-1], ['a', 'b'], { 0: 1 }, { a: 1 }, [{ role: 'user', content: 'a' }]),
  fc.constantFrom([{ role: 'user', content: [{ type: 'text', text: 'a' }] }], { include_usage: true }, [null]),
);
const fields = fc.dictionary(
  fc.constantFrom(
    ...['model', 'messages', 'prompt', 'stream', 'stream_options', 'n', 'best_of', 'logprobs', 'top_logprobs', 'echo'],
    ...[
      'stop',
      'temperature',
      'top_p',
      'top_k',
      'min_p',
      'logit_bias',
      'seed',
      'tools',
      'tool_choice',
      'user',
      'suffix',
    ],
    ...['frequency_penalty', 'presence_penalty', 'repetition_penalty', 'response_format', 'metadata', 'ignore_eos'],
    ...['deterministic', 'is_deterministic', '__proto__', 'constructor', 'stet', 'functions', 'modalities'],
  ),
  field,
  { maxKeys: 4 },
);
const usual = fc.constantFrom(
  {},
  { messages: [{ role: 'user', content: 'Once' }] },
  { prompt: 'Once' },
  { prompt: [1, 2] },
  { prompt: ['Once', 'upon'] },
  { messages: [{ role: 'user', content: 'Once' }], deterministic: true, seed: 1 },
  { prompt: 'Once', deterministic: true, seed: 1, logprobs: 1 },
);
const few = fc.constantFrom({ max_tokens: 2 }, { max_completion_tokens: 2 }, { max_tokens: 0 });
const body = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(usual, fields, few).map((parts) => JSON.stringify(Object.assign({}, ...parts))) },
  fc.json(),
  fc.string(),
);

/** An answer below 500: an error of the shape that clients know, JSON, or events that end as they should. */
function expectAnswer(status: number, type: string, text: string): void {
  expect(status, text).toBeLessThan(500);
  if (type.startsWith('text/event-stream')) {
    const events = text.split('\n\n').filter((event) => event.startsWith('data: '));
    const last = events.at(-1)!.slice('data: '.length);
    if (last !== '[DONE]') expect(JSON.parse(last)).toMatchObject({ error: { type: 'invalid_request_error' } });
    return;
  }
  const value = JSON.parse(text) as object;
  if (status !== 200) expect(value).toMatchObject({ error: { message: expect.any(String), code: expect.any(String) } });
}

describe(`whatever body is sent to the model on ${backendName}`, () => {
  it('is answered or refused, and everything is free again', { timeout }, async () => {
    const { url } = tales.server;
    const target = fc.constantFrom('/v1/chat/completions', '/v1/completions');
    await fc.assert(
      fc.asyncProperty(target, fc.array(body, { minLength: 1, maxLength: 6 }), async (path, bodies) => {
        await Promise.all(
          bodies.map(async (text) => {
            const headers = { 'Content-Type': 'application/json' };
            const answer = await fetch(url + path, { method: 'POST', headers, body: text });
            expectAnswer(answer.status, answer.headers.get('content-type')!, await answer.text());
          }),
        );
        expect(tales.engine.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
      }),
      { numRuns },
    );
  });
});
