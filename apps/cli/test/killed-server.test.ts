import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpuFeatures } from '@stet/backend-cpu';
import { type ClientEvent, connect } from '@stet/client';
import { afterEach, describe, expect, it } from 'vitest';
import { finished, isBuilt, startStet, builtTitle as title } from './support/stet.js';

const backends = cpuFeatures().available ? ['cpu', 'reference'] : ['reference'];

const request = {
  ...{ prompt: 'Once upon a time', maxTokens: 160, ignoreEos: true },
  ...{ deterministic: true, temperature: 0.8, topP: 0.95, logprobs: 1 },
} as const;

const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
});

/** `stet serve` in a process of its own, once it listens. */
async function serve(backend: string, port = '0'): Promise<{ child: ChildProcess; port: string }> {
  const child = startStet(['serve', '--backend', backend, '--kv-memory', '16', '--port', port]);
  children.push(child);
  const ended = finished(child).then(({ code, stderr }) => Promise.reject(new Error(`${code}: ${stderr}`)));
  ended.catch(() => {});
  const listening = new Promise<string>((resolve) => {
    let text = '';
    child.stdout!.on('data', (chunk) => {
      text += chunk;
      const [, found] = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    });
  });
  return { child, port: await Promise.race([listening, ended]) };
}

/** No handler runs, nothing is said to anybody. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Reads an answer, and does something once when so many tokens of it have come. */
async function read(
  events: AsyncIterable<ClientEvent>,
  seed: number,
  [tokenCount, then]: [number, () => Promise<void>] = [Number.POSITIVE_INFINITY, async () => {}],
) {
  const tokens: number[] = [];
  const logprobs: unknown[] = [];
  const commits: { from: number; hash: string }[] = [];
  let text = '';
  let isPending = true;
  for await (const event of events) {
    if (event.type === 'accepted') expect(event.seed).toBe(seed);
    if (event.type === 'commit') {
      expect(event.from).toBe(tokens.length);
      tokens.push(...event.tokens);
      logprobs.push(...event.logprobs!);
      text += event.text;
      commits.push({ from: event.from, hash: event.hash });
    }
    if (event.type === 'done') return { tokens, logprobs, text, hash: commits.at(-1)!.hash, receipt: event.receipt };
    if (isPending && tokens.length >= tokenCount) {
      isPending = false;
      await then();
    }
  }
  throw new Error('the answer ended before "done"');
}

describe.skipIf(!isBuilt)(title, () => {
  it.each(backends)(
    'is killed amid a deterministic answer, starts again on the %s backend, and the answer ends as if nothing had been',
    { timeout: 180_000 },
    async (nextBackend) => {
      const seed = 1234;
      const first = await serve(backends[0]!);
      const url = `ws://127.0.0.1:${first.port}`;
      // Credit keeps the server from being done before it is killed.
      const reconnect = { maxAttempts: 100, initialDelayMs: 50, maxDelayMs: 500 };
      await using client = await connect(url, { creditTokens: 16, reconnect });
      const whole = await read(client.generate({ ...request, seed }), seed);
      expect(whole.tokens).toHaveLength(request.maxTokens);
      expect(whole.receipt).toMatchObject({ outputHash: whole.hash, outputTokens: request.maxTokens });
      let kills = 0;
      const restart = async () => {
        await kill(first.child);
        kills++;
        await serve(nextBackend, first.port);
      };
      const interrupted = await read(client.generate({ ...request, seed }), seed, [40, restart]);
      expect(kills).toBe(1);
      expect(interrupted).toEqual(whole);
    },
  );
});
