import { newApiKey } from '@stet/server';
import { subprotocolsWith } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { type Harness, serve } from './support/harness.js';
import { RawConnection, upgradeRequest } from './support/raw-http.js';

/** In everything that is sent and that comes back; nothing that is logged may hold it. */
const CANARY = 'CaNaRy';
const canary = (what: string) => `${CANARY}-${what}`;

const [good, revoked] = [newApiKey(), newApiKey()];
const plain = { name: 'plain', key: `${CANARY}-key-`.padEnd(40, '0') };
const keys = [plain, { name: 'good', key: good.key }, { name: 'revoked', key: revoked.key }];

/** All that a logger could print of what it was given. */
function printed(logged: Harness['logged']): string {
  return JSON.stringify(logged, (_, value: unknown) =>
    value instanceof Error ? [value.name, value.message, value.stack, value.cause, { ...value }] : value,
  );
}

async function ticketOf(url: string): Promise<string> {
  const headers = { Authorization: `Bearer ${good.key}` };
  const answer = await fetch(`${url}/v1/tickets`, { method: 'POST', headers });
  return ((await answer.json()) as { ticket: string }).ticket;
}

describe('the log of a busy server', () => {
  it('holds no prompt, no output, no id, no key and no ticket', async () => {
    const { connect, server, logged } = await serve(
      { textOf: () => canary('output'), contextLength: 512 },
      { headersTimeoutMs: 300, requestTimeoutMs: 900, resumeWindowMs: 100 },
      { keys },
    );
    const tickets: string[] = [];
    for (let round = 0; round < 4; round++) {
      const ticket = await ticketOf(server.url);
      tickets.push(ticket);
      await Promise.all([useSocket(connect, ticket), useHttp(server.url), misuse(server.url, ticket)]);
    }
    const cut = await connect('stet.v1', { headers: { Authorization: `Bearer ${revoked.key}` } });
    cut.send({ type: 'generate', id: canary('id'), prompt: canary('prompt'), maxTokens: 400 });
    server.replaceKeys(keys.slice(0, 2));
    await cut.closed;
    await server.close();
    const text = printed(logged);
    // It says who came, and that one was dropped: it is no empty log that is searched.
    expect(logged.length).toBeGreaterThan(20);
    expect(text).toContain('"key":"good"');
    expect(text).toContain('"revoked":["revoked"]');
    expect(text).not.toMatch(new RegExp(CANARY, 'i'));
    for (const secret of [good.key, good.sha256, revoked.key, ...tickets]) expect(text).not.toContain(secret);
  });
});

async function useSocket(connect: Harness['connect'], ticket: string): Promise<void> {
  const client = await connect(subprotocolsWith(ticket));
  await client.generate(canary('id'), { prompt: canary('prompt'), stop: canary('stop'), [canary('field')]: 1 });
  await client.generate(canary('deterministic'), { prompt: canary('prompt'), deterministic: true, user: CANARY });
  await client.generate(canary('long'), { prompt: canary('prompt'), maxTokens: 100_000 });
  await client.refusalOf(canary('nonsense'));
  await client.refusalOf({ type: canary('type'), id: canary('id') });
  await client.refusalOf({ type: 'cancel', id: canary('unknown') });
  client.send({ type: 'resume', id: canary('resume'), stream: canary('stream'), after: 0 });
  client.send({ type: 'generate', id: canary('lost'), prompt: canary('prompt'), maxTokens: 400 });
  await client.until(() => client.frames.some((frame) => 'id' in frame && frame.id === canary('lost')), 'a frame');
  client.send(CANARY.repeat(300_000));
  await client.closed;
}

async function useHttp(url: string): Promise<void> {
  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    fetch(url + path, {
      method: 'POST',
      body,
      headers: { Authorization: `Bearer ${good.key}`, 'Content-Type': 'application/json', ...headers },
    }).then((answer) => answer.text());
  const messages = [{ role: 'user', content: canary('prompt') }];
  for (const path of [
    '/v1/chat/completions',
    '/v1/completions',
    '/v1/nowhere',
    `/${canary('path')}?q=${canary('query')}`,
  ]) {
    await post(path, JSON.stringify({ model: 'scripted', messages, prompt: canary('prompt'), max_tokens: 4 }));
    await post(path, JSON.stringify({ model: canary('model'), messages, stream: true }));
    await post(path, `{"prompt": ${canary('json')}}`);
    await post(path, '{}', { Authorization: `Bearer ${canary('wrong-key')}`, Cookie: canary('cookie') });
    await post(path, '{}', { Origin: `https://${canary('origin')}.org`, 'X-Forwarded-For': canary('forwarded') });
  }
}

async function misuse(url: string, usedTicket: string): Promise<void> {
  const texts = [
    `${canary('method')} / HTTP/1.1\r\nHost: a\r\n\r\n`,
    `GET /${canary('path')} HTTP/1.1\r\nHost: a\r\n${canary('header')}: ${'x'.repeat(20_000)}\r\n\r\n`,
    `POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${good.key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"prompt":"${CANARY}`,
    upgradeRequest([`Sec-WebSocket-Protocol: stet.v1, stet.ticket.${usedTicket}x`, `Cookie: ${canary('cookie')}`]),
    upgradeRequest([`Authorization: Bearer ${canary('wrong-key')}`]),
    upgradeRequest([`Authorization: Bearer ${plain.key}`, `Sec-WebSocket-Extensions: ${canary('extension')};;`]),
  ];
  for (const text of texts) {
    const connection = (await RawConnection.open(url)).write(text);
    connection.socket.end();
    await connection.all();
  }
}
