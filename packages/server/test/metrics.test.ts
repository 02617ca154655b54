import { StetError } from '@stet/backend';
import type { EngineHealth } from '@stet/engine';
import { createServer, type ServerOptions, type StetServer } from '@stet/server';
import type { DoneFrame } from '@stet/server/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { type Family, parseExposition } from './support/exposition.js';
import { serve, waitFor } from './support/harness.js';
import { ScriptedEngine } from './support/scripted-engine.js';
import { backendName, talesServers } from './support/tales-server.js';
import { TestSocket } from './support/test-socket.js';

async function scrape(url: string, headers: Record<string, string> = {}): Promise<Map<string, Family>> {
  const answer = await fetch(`${url}/metrics`, { headers });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ]);
  return parseExposition(await answer.text());
}

function sampleOf(families: Map<string, Family>, key: string): number | undefined {
  const name = key.split('{', 1)[0]!;
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''));
  if (family === undefined) throw new Error(`there is no metric ${name}`);
  return family.samples.get(key);
}

describe('the parser of these tests', () => {
  it.each([
    ['# HELP a b\n# TYPE a gauge\na 1', /no end/],
    ['a 1\n', /no sample of a family/],
    ['# TYPE a gauge\na 1\n', /without its HELP/],
    ['# HELP a b\n# TYPE a gauge\nb 1\n', /no sample of the gauge/],
    ['# HELP a b\n# TYPE a gauge\na 1\na 2\n', /comes twice/],
    ['# HELP a b\n# TYPE a gauge\na{x="1",y="2"} 1\na{y="2",x="1"} 2\n', /comes twice/],
    ['# HELP a b\n# TYPE a gauge\na{x="1"y="2"} 1\n', /bad labels/],
    ['# HELP a b\n# TYPE a gauge\na{x="\n"} 1\n', /no sample|bad labels/],
    ['# HELP a b\n# TYPE a gauge\na one\n', /no number/],
    ['# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n', /not rise/],
    ['# HELP a b\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n', /no such count/],
  ])('refuses %j', (text, message) => {
    expect(() => parseExposition(text)).toThrow(message);
  });
});

describe(`the metrics of the embedded model on ${backendName}`, () => {
  const tales = talesServers();

  it('add up to what clients were told', async () => {
    const server = await tales.serve({ limits: { drainMs: 0, resumeWindowMs: 0 } });
    const before = tales.engine.stats();
    const client = await TestSocket.connect(server.url);
    const prompt = 'Once upon a time, there was a little girl named Lily who had a dog';
    const doneOf = async (id: string, fields: object) => {
      const { end } = await client.generate(id, { prompt, temperature: 0.8, seed: 4, ignoreEos: true, ...fields });
      expect(end?.type).toBe('done');
      return end as DoneFrame;
    };
    const ordinary = await doneOf('a', { maxTokens: 9 });
    const deterministic = [
      await doneOf('b', { maxTokens: 24, deterministic: true }),
      await doneOf('c', { maxTokens: 24, deterministic: true }),
    ];
    const refused = await client.generate('d', { prompt, maxTokens: 1_000_000 });
    expect(refused.end).toMatchObject({ code: 'STET_ERR_CONTEXT_LENGTH' });
    const completion = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ model: tales.engine.info.model, prompt: 'A bear', max_tokens: 5, n: 2 }),
    });
    const { usage } = (await completion.json()) as { usage: { prompt_tokens: number; completion_tokens: number } };
    await fetch(`${server.url}/nothing/${'x'.repeat(50)}`);
    await waitFor(() => server.stats().streams === 0, 'the end of all streams');
    const families = await scrape(server.url);
    const value = (key: string) => sampleOf(families, key);

    const sum = (read: (done: DoneFrame) => number) => deterministic.reduce((total, done) => total + read(done), 0);
    const tokens = (kind: string, mode: string) => value(`stet_tokens_total{kind="${kind}",mode="${mode}"}`);
    expect(tokens('committed', 'ordinary')).toBe(ordinary.usage.completionTokens + usage.completion_tokens);
    expect(tokens('committed', 'deterministic')).toBe(48);
    expect(tokens('prompt', 'deterministic')).toBe(sum(({ usage: own }) => own.promptTokens));
    expect(tokens('cached', 'deterministic')).toBe(sum(({ stats }) => stats.cachedTokens));
    expect(tokens('recomputed', 'deterministic')).toBe(sum(({ stats }) => stats.recomputedTokens));
    expect(value('stet_requests_total{mode="deterministic",outcome="length"}')).toBe(2);
    expect(value('stet_requests_total{mode="ordinary",outcome="length"}')).toBe(3);
    expect(value('stet_requests_refused_total{code="STET_ERR_CONTEXT_LENGTH"}')).toBe(1);
    expect(value('stet_streams_total{outcome="done"}')).toBe(3);
    expect(value('stet_streams_total{outcome="failed"}')).toBe(1);
    expect(value('stet_time_to_first_token_seconds_count{mode="deterministic"}')).toBe(2);
    expect(value('stet_queue_seconds_count{mode="ordinary"}')).toBe(3);
    expect(value('stet_commit_gap_seconds_count{mode="ordinary"}')).toBeGreaterThan(0);
    expect(value('stet_http_requests_total{method="POST",route="/v1/completions",status="200"}')).toBe(1);
    expect(value('stet_http_requests_total{method="GET",route="none",status="404"}')).toBe(1);

    const after = tales.engine.stats();
    expect(value('stet_steps_total')).toBe(after.steps);
    expect(value('stet_step_seconds_count')).toBe(after.steps - before.steps);
    expect(value('stet_verify_windows_total')).toBe(after.windows);
    expect(after.windows - before.windows).toBe(sum(({ stats }) => stats.windows));
    expect(value('stet_rollbacks_total')).toBe(after.rollbacks);
    expect(value('stet_verify_mismatch_ratio')).toBe(after.rollbacks / after.windows);
    expect(value('stet_step_rows_total{schedule="fast"}')).toBe(after.fastRows);
    for (const state of ['free', 'held', 'cached'] as const)
      expect(value(`stet_kv_blocks{state="${state}"}`)).toBe(after.blocks[state]);
    const hits = [ordinary, ...deterministic].filter(({ stats }) => stats.cachedTokens > 0).length;
    expect(hits).toBeGreaterThan(0);
    expect(value('stet_prefix_hits_total')).toBe(hits);
    expect(value('stet_sockets')).toBe(1);
    expect(value('stet_sockets_opened_total')).toBe(1);
    expect([value('stet_requests_running'), value('stet_requests_waiting')]).toEqual([0, 0]);
    expect([value('stet_ready'), value('stet_unsent_bytes'), value('stet_streams{state="attached"}')]).toEqual([
      1, 0, 0,
    ]);
    expect([...families.get('stet_info')!.samples]).toEqual([
      [expect.stringContaining(`fingerprint="${tales.engine.info.fingerprint}"`), 1],
    ]);
    expect(value('process_resident_memory_bytes')).toBeGreaterThan(1e6);
    expect(value('nodejs_eventloop_lag_p99_seconds')).toBeDefined();
    expect(client.violation).toBeUndefined();
    client.socket.close();
    await client.closed;
  });

  it('have names, help and units as Prometheus wants them', async () => {
    const families = await scrape(tales.server.url);
    const own = [...families.values()].filter(({ name }) => !/^(process|nodejs)_/.test(name));
    expect(own.length).toBeGreaterThan(25);
    for (const { name, type, help } of own) {
      expect(name).toMatch(/^stet_[a-z_]+$/);
      expect(name.endsWith('_total')).toBe(type === 'counter');
      if (type === 'histogram') expect(name).toMatch(/_seconds$/);
      expect(help).toMatch(/^[A-Z1][^\n]{10,}$/);
    }
  });
});

describe('access to /metrics', () => {
  const servers: StetServer[] = [];
  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close();
  });
  const keys = [{ name: 'alice', key: 'a'.repeat(32) }];
  const authorized = { Authorization: `Bearer ${keys[0]!.key}` };

  it.each<[Partial<ServerOptions>, number, number]>([
    [{}, 200, 200],
    [{ keys }, 200, 200],
    [{ keys, host: '0.0.0.0' }, 401, 200],
    [{ keys, metrics: 'keyed' }, 401, 200],
    [{ keys, host: '0.0.0.0', metrics: 'open' }, 200, 200],
    [{ keys, metrics: 'off' }, 404, 404],
  ])('of a server with %j is %i for strangers, %i for its keys', async (options, stranger, known) => {
    const server = await createServer({ engine: new ScriptedEngine(), port: 0, limits: { drainMs: 0 }, ...options });
    servers.push(server);
    const url = server.url.replace('0.0.0.0', '127.0.0.1');
    const statusFor = async (headers: Record<string, string>) => (await fetch(`${url}/metrics`, { headers })).status;
    expect([await statusFor({}), await statusFor(authorized)]).toEqual([stranger, known]);
  });

  it('is a choice that is checked', async () => {
    const refused = createServer({ engine: new ScriptedEngine(), port: 0, metrics: 'public' as 'open' });
    await expect(refused).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
  });

  it('shows nothing that a client chose', async () => {
    const { server, connect } = await serve();
    const client = await connect();
    await client.generate('CANARY', { prompt: 'CANARY', stop: 'CANARY', user: 'CANARY' });
    await fetch(`${server.url}/CANARY?CANARY`, { method: 'PROPFIND', headers: { 'User-Agent': 'CANARY' } });
    await fetch(`${server.url}/v1/completions`, { method: 'POST', body: 'CANARY' });
    await (await connect('CANARY')).closed;
    const text = await (await fetch(`${server.url}/metrics`)).text();
    expect(text).not.toContain('CANARY');
    const answers = parseExposition(text).get('stet_http_requests_total')!;
    expect([...answers.samples.keys()].some((key) => key.includes('method="other"'))).toBe(true);
  });

  it('can be asked for its head alone', async () => {
    const { server } = await serve();
    const head = await fetch(`${server.url}/metrics`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect(Number(head.headers.get('content-length'))).toBeGreaterThan(1000);
  });
});

describe('/ready', () => {
  it('follows the engine: 503 while its device is lost, with and without a time to come back', async () => {
    let health: EngineHealth = { state: 'ready' };
    const engine = Object.defineProperty(new ScriptedEngine(), 'health', { get: () => health });
    const server = await createServer({ engine, port: 0, limits: { drainMs: 0 } });
    const ask = async () => {
      const answer = await fetch(`${server.url}/ready`);
      const { error } = (await answer.json()) as { error?: { code: string } };
      const { headers } = answer;
      return [answer.status, error?.code, headers.get('retry-after'), headers.get('x-should-retry')];
    };
    const isReady = async () => sampleOf(await scrape(server.url), 'stet_ready');
    try {
      expect([await ask(), await isReady()]).toEqual([[200, undefined, null, null], 1]);
      health = { state: 'recreating' };
      expect([await ask(), await isReady()]).toEqual([[503, 'STET_ERR_DEVICE_LOST', '2', null], 0]);
      health = { state: 'gone', error: new StetError('STET_ERR_DEVICE_LOST', 'a secret of the driver') };
      expect([await ask(), await isReady()]).toEqual([[503, 'STET_ERR_DEVICE_LOST', null, 'false'], 0]);
      expect(await (await fetch(`${server.url}/ready`)).text()).not.toContain('secret');
      expect((await fetch(`${server.url}/health`)).status).toBe(200);
    } finally {
      await server.close();
    }
  });
});

describe('the log of requests', () => {
  it('has the request id of the answer, and the socket and stream of frames', async () => {
    const { server, connect, logged } = await serve();
    const answer = await fetch(`${server.url}/v1/tickets`, { method: 'POST' });
    const requestId = answer.headers.get('x-request-id');
    await waitFor(() => logged.some(({ message }) => message === 'request answered'), 'the line');
    expect(logged.filter(({ fields }) => fields.requestId === requestId)).toEqual([
      {
        fields: {
          requestId,
          key: 'loopback',
          route: '/v1/tickets',
          method: 'POST',
          status: 200,
          ms: expect.any(Number),
        },
        message: 'request answered',
      },
    ]);
    const client = await connect();
    const { accepted } = await client.generate('a');
    client.socket.close();
    await client.closed;
    await waitFor(() => logged.some(({ message }) => message === 'socket closed'), 'the line');
    const { socket } = logged.find(({ message }) => message === 'socket opened')!.fields;
    expect(socket).toMatch(/^[0-9a-f-]{36}$/);
    expect(logged.filter(({ fields }) => fields.socket === socket).map(({ message }) => message)).toEqual([
      'socket opened',
      'stream opened',
      'socket closed',
    ]);
    expect(logged.filter(({ fields }) => fields.stream === accepted!.stream)).toEqual([
      { fields: { socket, stream: accepted!.stream }, message: 'stream opened' },
      { fields: { stream: accepted!.stream, key: 'loopback', outcome: 'done' }, message: 'stream ended' },
    ]);
  });

  it('leaves out what everybody asks all the time', async () => {
    const { server, logged } = await serve();
    for (const path of ['/health', '/ready', '/metrics', '/nothing']) await (await fetch(server.url + path)).text();
    expect(logged.filter(({ message }) => message === 'request answered')).toEqual([]);
  });
});
