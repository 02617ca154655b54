import { newApiKey } from '@stet/server';
import { subprotocolsWith } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { type Harness, serve } from './support/harness.js';
import type { TestSocket } from './support/test-socket.js';

const [alice, bob] = [newApiKey(), newApiKey()];
const keys = [alice, bob].map(({ sha256 }, index) => ({ name: ['alice', 'bob'][index]!, sha256 }));
const bearer = (key: string) => ({ headers: { Authorization: `Bearer ${key}` } });
const long = { maxTokens: 100_000 };

/** A stream of alice that has lost its socket in the middle; its handle. */
async function detached({ connect, server }: Harness): Promise<string> {
  const client = await connect('stet.v1', bearer(alice.key));
  client.send({ type: 'generate', id: 'mine', prompt: 'SECRET', ...long });
  await client.until(() => client.frames.length > 3, 'frames');
  const [accepted] = client.frames;
  if (accepted?.type !== 'accepted') throw new Error('the first frame is not accepted');
  client.socket.terminate();
  await client.closed;
  await expect.poll(() => server.stats().detachedStreams, { timeout: 10_000 }).toBe(1);
  return accepted.stream;
}

const resume = async (client: TestSocket, stream: string) => {
  client.send({ type: 'resume', id: 'r', stream, after: 0 });
  await client.until(() => client.frames.length > 0, 'an answer');
  return client.frames[0]!;
};

const server = () => serve({ contextLength: 200_000 }, { resumeWindowMs: 60_000 }, { keys });

describe('a stream', () => {
  it('of one key is to another as if there were none', async () => {
    const harness = await server();
    const stream = await detached(harness);
    const other = await harness.connect('stet.v1', bearer(bob.key));
    const foreign = await resume(other, stream);
    expect(foreign).toMatchObject({ type: 'error', code: 'STET_ERR_UNKNOWN_STREAM' });
    const another = await harness.connect('stet.v1', bearer(bob.key));
    expect(await resume(another, crypto.randomUUID())).toEqual(foreign);
    expect(await another.refusalOf({ type: 'cancel', id: 'mine' })).toMatchObject({ code: 'STET_ERR_UNKNOWN_ID' });
    expect(harness.server.stats().detachedStreams).toBe(1);
    expect(harness.engine.stats().running).toBe(1);
  });

  it('goes on for its own key, shown by a ticket too', async () => {
    const harness = await server();
    const stream = await detached(harness);
    const answer = await fetch(`${harness.server.url}/v1/tickets`, { method: 'POST', ...bearer(alice.key) });
    const { ticket } = (await answer.json()) as { ticket: string };
    const client = await harness.connect(subprotocolsWith(ticket));
    expect(await resume(client, stream)).toMatchObject({ type: 'accepted', stream });
    client.send({ type: 'cancel', id: 'r' });
    await client.until(() => client.streams.get('r')?.end !== undefined, 'its end');
  });

  it('is nobody’s once its key was replaced, also under the same name', async () => {
    const harness = await server();
    const stream = await detached(harness);
    const renewed = newApiKey();
    harness.server.replaceKeys([{ name: 'alice', sha256: renewed.sha256 }, keys[1]!]);
    await harness.idle();
    expect(harness.server.stats()).toMatchObject({ detachedStreams: 0, keptBytes: 0 });
    const client = await harness.connect('stet.v1', bearer(renewed.key));
    expect(await resume(client, stream)).toMatchObject({ type: 'error', code: 'STET_ERR_UNKNOWN_STREAM' });
  });
});
