import { createServer, newApiKey } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { TestSocket } from './support/test-socket.js';
import { toyEngine } from './support/toy-engine.js';

const names = ['alice', 'bob', 'carol', 'dave'] as const;
type Name = (typeof names)[number];
const secrets = Object.fromEntries(names.map((name) => [name, newApiKey()])) as Record<
  Name,
  ReturnType<typeof newApiKey>
>;
/** Carol and Dave trust each other. */
const keys = names.map((name, index) => ({
  name,
  sha256: secrets[name].sha256,
  ...(index >= 2 && { cacheScope: 'office' }),
}));
const headersOf = (name: Name) => ({ Authorization: `Bearer ${secrets[name].key}` });
const prompt = 'the same beginning of a prompt, of more than two blocks of tokens';

async function withServer(test: (url: string) => Promise<void>): Promise<void> {
  await using engine = await toyEngine(0);
  await using server = await createServer({ engine, port: 0, keys, limits: { drainMs: 0 } });
  await test(server.url);
}

async function overSocket(url: string, name: Name): Promise<number> {
  const socket = await TestSocket.connect(url, 'stet.v1', { headers: headersOf(name) });
  const { end } = await socket.generate('a', { prompt, maxTokens: 4, deterministic: true });
  socket.socket.terminate();
  if (end?.type !== 'done') throw new Error(`the stream ended with ${end?.type}`);
  return end.stats.cachedTokens;
}

async function overHttp(url: string, name: Name): Promise<number> {
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { ...headersOf(name), 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: 'toy', prompt, max_tokens: 4, temperature: 0, deterministic: true }),
  });
  const { usage } = (await answer.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
  return usage.prompt_tokens_details.cached_tokens;
}

describe('the prefix cache', () => {
  it('tells nobody what another key has sent, over WebSocket and HTTP', () =>
    withServer(async (url) => {
      expect(await overSocket(url, 'alice')).toBe(0);
      for (const ask of [overSocket, overHttp]) expect(await ask(url, 'bob')).toBe(ask === overSocket ? 0 : 64);
      for (const ask of [overSocket, overHttp]) expect(await ask(url, 'alice')).toBe(64);
    }));

  it('is one for the keys of a scope', () =>
    withServer(async (url) => {
      expect(await overSocket(url, 'carol')).toBe(0);
      expect(await overHttp(url, 'dave')).toBe(64);
      expect(await overHttp(url, 'alice')).toBe(0);
    }));
});
