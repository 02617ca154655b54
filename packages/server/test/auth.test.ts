import { createServer, newApiKey } from '@stet/server';
import { subprotocolsWith } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';
import { ScriptedEngine } from './support/scripted-engine.js';

const [alice, bob] = [newApiKey(), newApiKey()];
const keys = [
  { name: 'alice', sha256: alice.sha256 },
  { name: 'bob', key: bob.key },
];
const bearer = (key: string) => ({ headers: { Authorization: `Bearer ${key}` } });

async function ticketOf(url: string, key: string): Promise<string> {
  const answer = await fetch(`${url}/v1/tickets`, { method: 'POST', ...bearer(key) });
  expect(answer.status).toBe(200);
  const { ticket, expiresInMs } = (await answer.json()) as { ticket: string; expiresInMs: number };
  expect(expiresInMs).toBe(60_000);
  return ticket;
}

describe('a server with keys', () => {
  it('serves whoever has one, over WebSocket and HTTP', async () => {
    const { connect, server, logged } = await serve({}, {}, { keys });
    for (const { key } of [alice, bob]) {
      const client = await connect('stet.v1', bearer(key));
      expect((await client.generate('a')).end!.type).toBe('done');
      await ticketOf(server.url, key);
    }
    const opened = logged.filter(({ message }) => message === 'socket opened');
    expect(opened.map(({ fields }) => fields.key)).toEqual(['alice', 'bob']);
  });

  it('takes the name of the scheme in any case, and the key in its own alone', async () => {
    const { connect } = await serve({}, {}, { keys });
    await connect('stet.v1', { headers: { Authorization: `bearer  ${alice.key}` } });
    await expect(connect('stet.v1', bearer(alice.key.toUpperCase()))).rejects.toThrow('401');
  });

  const refused: readonly [string, string | undefined][] = [
    ['none', undefined],
    ['an empty one', ''],
    ['a scheme without a key', 'Bearer'],
    ['another scheme', `Basic ${alice.key}`],
    ['no scheme', alice.key],
    ['its hash', `Bearer ${alice.sha256}`],
    ['one character less', `Bearer ${alice.key.slice(0, -1)}`],
    ['two keys', `Bearer ${alice.key} ${bob.key}`],
    ['the key of nobody', `Bearer ${newApiKey().key}`],
  ];
  it.each(refused)('answers 401 to %s, and says what it wants', async (_, authorization) => {
    const { connect, server, logged } = await serve({}, {}, { keys });
    const headers = authorization === undefined ? {} : { Authorization: authorization };
    const answer = await fetch(`${server.url}/v1/tickets`, { method: 'POST', headers });
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, expect.stringMatching(/^Bearer /)]);
    const text = await answer.text();
    expect(JSON.parse(text)).toMatchObject({
      error: { code: 'STET_ERR_UNAUTHORIZED', type: 'invalid_request_error', param: null },
    });
    await expect(connect('stet.v1', { headers })).rejects.toThrow('401');
    expect(text + JSON.stringify(logged)).not.toContain(alice.key.slice(0, 20));
  });

  it('says to everybody that it lives and whether it is ready', async () => {
    const { server } = await serve({}, {}, { keys });
    for (const path of ['/health', '/ready']) {
      expect((await fetch(server.url + path)).status).toBe(200);
      expect((await fetch(server.url + path, bearer('wrong'))).status).toBe(200);
    }
  });

  it('may be bound to any host, unlike one without', async () => {
    const { server } = await serve({}, {}, { keys, host: '0.0.0.0' });
    const url = server.url.replace('0.0.0.0', '127.0.0.1');
    expect((await fetch(`${url}/v1/tickets`, { method: 'POST' })).status).toBe(401);
  });

  it('is not created with keys that are not in order', async () => {
    for (const bad of [[], [{ name: 'a' }], [keys[0]!, keys[0]!]]) {
      const error = await createServer({ engine: new ScriptedEngine(), port: 0, keys: bad }).catch((thrown) => thrown);
      expect(error).toMatchObject({ code: 'STET_ERR_BAD_CONFIG' });
    }
  });
});

describe('a ticket', () => {
  it('opens one socket as its key would, and stet.v1 is answered alone', async () => {
    const { connect, server, logged } = await serve({}, {}, { keys });
    const ticket = await ticketOf(server.url, bob.key);
    const client = await connect(subprotocolsWith(ticket));
    expect(client.socket.protocol).toBe('stet.v1');
    expect((await client.generate('a')).end!.type).toBe('done');
    expect(logged.find(({ message }) => message === 'socket opened')!.fields.key).toBe('bob');
    await expect(connect(subprotocolsWith(ticket))).rejects.toThrow('401');
    expect(JSON.stringify(logged)).not.toContain(ticket);
  });

  it('opens nothing when it is wrong, and no route over HTTP', async () => {
    const { connect, server } = await serve({}, {}, { keys });
    await expect(connect(subprotocolsWith('x'.repeat(43)))).rejects.toThrow('401');
    await expect(connect(['stet.v1', 'stet.ticket.'])).rejects.toThrow('401');
    const ticket = await ticketOf(server.url, bob.key);
    const headers = { 'Sec-WebSocket-Protocol': subprotocolsWith(ticket).join(', ') };
    expect((await fetch(`${server.url}/v1/tickets`, { method: 'POST', headers })).status).toBe(401);
    await connect(subprotocolsWith(ticket));
  });

  it('is never answered as the subprotocol', async () => {
    const { connect, server } = await serve({}, {}, { keys });
    const unknown = await connect([`stet.ticket.${await ticketOf(server.url, bob.key)}`, 'stet.v9']);
    expect([unknown.socket.protocol, (await unknown.closed).code]).toEqual(['stet.v9', 4400]);
    const alone = connect([`stet.ticket.${await ticketOf(server.url, bob.key)}`]);
    await expect(alone).rejects.toThrow('Server sent no subprotocol');
  });

  it('is refused with 429 while too many are unused', async () => {
    const { server } = await serve({}, { maxTicketsPerKey: 2 }, { keys });
    await ticketOf(server.url, bob.key);
    await ticketOf(server.url, bob.key);
    const answer = await fetch(`${server.url}/v1/tickets`, { method: 'POST', ...bearer(bob.key) });
    expect(answer.status).toBe(429);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(50);
    await ticketOf(server.url, alice.key);
  });

  it('works on a server without keys too', async () => {
    const { connect, server } = await serve();
    const { ticket } = (await (await fetch(`${server.url}/v1/tickets`, { method: 'POST' })).json()) as never;
    expect((await connect(subprotocolsWith(ticket))).socket.protocol).toBe('stet.v1');
  });
});

describe('replacing the keys', () => {
  it('ends with 1008 what a revoked key holds, and leaves the rest alone', async () => {
    const { connect, engine, server } = await serve({ contextLength: 1_000_000 }, {}, { keys });
    const [stays, goes] = [await connect('stet.v1', bearer(alice.key)), await connect('stet.v1', bearer(bob.key))];
    const ticket = await ticketOf(server.url, bob.key);
    const running = stays.generate('a', { maxTokens: 3000 });
    const cut = goes.generate('a', { maxTokens: 900_000 });
    await goes.until(() => goes.frames.length > 3, 'frames');
    server.replaceKeys([{ ...keys[0]!, limits: { maxSockets: 1 } }]);
    expect(await goes.closed).toEqual({ code: 1008, reason: 'STET_ERR_UNAUTHORIZED' });
    expect((await cut).end).toMatchObject({ code: 'STET_ERR_UNAUTHORIZED', retryable: false });
    expect((await running).end!.type).toBe('done');
    await expect(connect('stet.v1', bearer(bob.key))).rejects.toThrow('401');
    await expect(connect(subprotocolsWith(ticket))).rejects.toThrow('401');
    await expect(connect('stet.v1', bearer(alice.key))).rejects.toThrow('429');
    expect(engine.stats().running).toBe(0);
  });

  it('lets the old ones stay when the new ones are not in order', async () => {
    const { connect, server } = await serve({}, {}, { keys });
    const client = await connect('stet.v1', bearer(bob.key));
    expect(() => server.replaceKeys([{ name: 'bob', key: 'short' }])).toThrow('keys[0].key: ');
    expect((await client.generate('a')).end!.type).toBe('done');
    await connect('stet.v1', bearer(bob.key));
  });

  it('is refused on a server without', async () => {
    const { server } = await serve();
    expect(() => server.replaceKeys(keys)).toThrow('created without keys');
  });
});

describe('the limits of a key', () => {
  const limited = (limits: object) => [
    { ...keys[0]!, limits },
    { ...keys[1]!, limits },
  ];

  it('bound its sockets, also those opened by ticket, and not those of others', async () => {
    const { connect, server } = await serve({}, {}, { keys: limited({ maxSockets: 2 }) });
    const first = await connect('stet.v1', bearer(alice.key));
    await connect(subprotocolsWith(await ticketOf(server.url, alice.key)));
    await expect(connect('stet.v1', bearer(alice.key))).rejects.toThrow('429');
    await connect('stet.v1', bearer(bob.key));
    first.socket.close();
    await first.closed;
    await waitFor(() => server.stats().sockets === 2, 'the end of the socket');
    await connect('stet.v1', bearer(alice.key));
  });

  it('are not used up by handshakes that fail', async () => {
    const { connect, server } = await serve({}, {}, { keys: limited({ maxSockets: 1 }) });
    for (let times = 0; times < 3; times++) {
      const headers = { ...bearer(alice.key).headers, Upgrade: 'websocket', Connection: 'Upgrade' };
      await fetch(`${server.url}/v1/stream`, { headers }).catch(() => {});
      const unknown = await connect('other.v1', bearer(alice.key));
      await unknown.closed;
      await waitFor(() => server.stats().sockets === 0, 'no socket');
    }
    await waitFor(() => server.stats().sockets === 0, 'no socket');
    expect((await (await connect('stet.v1', bearer(alice.key))).generate('a')).end!.type).toBe('done');
  });

  it('bound its streams over all its sockets, and free a place with each end', async () => {
    const { connect, idle } = await serve({ contextLength: 1_000_000 }, {}, { keys: limited({ maxStreams: 2 }) });
    const [one, two] = [await connect('stet.v1', bearer(alice.key)), await connect('stet.v1', bearer(alice.key))];
    const cancelled = one.generate('a', { maxTokens: 900_000 });
    two.send({ type: 'generate', id: 'a', prompt: 'p', maxTokens: 900_000 });
    await two.until(() => two.frames.length > 1, 'frames');
    expect((await two.generate('b')).end).toMatchObject({ code: 'STET_ERR_RATE_LIMITED', seq: 0, retryable: true });
    const other = await connect('stet.v1', bearer(bob.key));
    expect((await other.generate('b')).end!.type).toBe('done');
    one.send({ type: 'cancel', id: 'a' });
    await cancelled;
    for (let times = 0; times < 5; times++) expect((await two.generate('b')).end!.type).toBe('done');
    expect((await two.generate('c', { maxTokens: 'bad' })).end).toMatchObject({ code: 'STET_ERR_BAD_REQUEST' });
    expect((await two.generate('c', { maxTokens: 2_000_000 })).end).toMatchObject({ code: 'STET_ERR_CONTEXT_LENGTH' });
    expect((await two.generate('c')).end!.type).toBe('done');
    two.send({ type: 'cancel', id: 'a' });
    await idle();
  });

  it('bound its requests of a minute, over all its sockets', async () => {
    const { connect, server } = await serve({}, {}, { keys: limited({ requestsPerMinute: 3 }) });
    const [one, two] = [await connect('stet.v1', bearer(alice.key)), await connect('stet.v1', bearer(alice.key))];
    expect((await one.generate('a')).end!.type).toBe('done');
    expect((await two.generate('a')).end!.type).toBe('done');
    await ticketOf(server.url, alice.key);
    expect((await one.generate('b')).end).toMatchObject({ code: 'STET_ERR_RATE_LIMITED', retryable: true });
    const answer = await fetch(`${server.url}/v1/tickets`, { method: 'POST', ...bearer(alice.key) });
    expect(answer.status).toBe(429);
    const seconds = Number(answer.headers.get('retry-after'));
    const milliseconds = Number(answer.headers.get('retry-after-ms'));
    expect([seconds, milliseconds > 1000 && milliseconds <= 20_000]).toEqual([Math.ceil(milliseconds / 1000), true]);
  });
});
