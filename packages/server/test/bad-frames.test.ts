import { fc } from '@fast-check/vitest';
import type { StetErrorCode } from '@stet/backend';
import { protocolLimits } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';

const generate = { type: 'generate', id: 'new', prompt: 'p', maxTokens: 4 };
/** Asks for the rest of an earlier run. */
const again = { ...generate, deterministic: true, seed: 1, after: 2, hash: 'a'.repeat(64) };
const long = 'x'.repeat(protocolLimits.maxIdLength + 1);

/** Each is answered while a stream named `open` runs, and starts nothing. */
const badFrames: readonly {
  name: string;
  frame: object | string | Buffer;
  code: StetErrorCode;
  about: { id?: string; seq?: number };
  says: string;
}[] = [
  { name: 'text that is not JSON', frame: 'hello', code: 'STET_ERR_BAD_FRAME', about: {}, says: 'not JSON' },
  { name: 'an empty frame', frame: '', code: 'STET_ERR_BAD_FRAME', about: {}, says: 'not JSON' },
  { name: 'JSON cut short', frame: '{"type":"generate"', code: 'STET_ERR_BAD_FRAME', about: {}, says: 'not JSON' },
  { name: 'an array', frame: '[1,2]', code: 'STET_ERR_BAD_FRAME', about: {}, says: 'not an object' },
  { name: 'null', frame: 'null', code: 'STET_ERR_BAD_FRAME', about: {}, says: 'not an object' },
  {
    name: 'a binary frame',
    frame: Buffer.from(JSON.stringify(generate)),
    code: 'STET_ERR_BAD_FRAME',
    about: {},
    says: 'binary',
  },
  {
    name: 'nesting half a million deep',
    frame: '['.repeat(500_000),
    code: 'STET_ERR_BAD_FRAME',
    about: {},
    says: 'not JSON',
  },
  { name: 'no type', frame: { id: 'new' }, code: 'STET_ERR_UNKNOWN_TYPE', about: { id: 'new' }, says: 'no type' },
  {
    name: 'an unknown type',
    frame: { type: 'genrate', id: 'new' },
    code: 'STET_ERR_UNKNOWN_TYPE',
    about: { id: 'new' },
    says: '"genrate"',
  },
  {
    name: 'a type of the prototype',
    frame: { type: 'constructor' },
    code: 'STET_ERR_UNKNOWN_TYPE',
    about: {},
    says: '"constructor"',
  },
  {
    name: 'negative maxTokens',
    frame: { ...generate, maxTokens: -1 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'maxTokens: ',
  },
  {
    name: 'no maxTokens at all',
    frame: { ...generate, maxTokens: 0 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'maxTokens: ',
  },
  {
    name: 'a repetition penalty of 0',
    frame: { ...generate, repetitionPenalty: 0 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'repetitionPenalty: ',
  },
  {
    name: 'a temperature beyond all numbers',
    frame: '{"type":"generate","id":"new","prompt":"p","temperature":1e999}',
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'temperature: ',
  },
  {
    name: 'no prompt',
    frame: { type: 'generate', id: 'new' },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'exactly one',
  },
  {
    name: 'two prompts',
    frame: { ...generate, promptTokens: [1] },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'exactly one',
  },
  {
    name: 'token ids that are none',
    frame: { type: 'generate', id: 'new', promptTokens: new Array(100_000).fill('a') },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'promptTokens: ',
  },
  {
    name: 'a message without content',
    frame: { type: 'generate', id: 'new', messages: [{ role: 'user', content: 'x' }, { role: 'user' }] },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'messages[1].content: ',
  },
  {
    name: 'too many messages',
    frame: { type: 'generate', id: 'new', messages: new Array(protocolLimits.maxMessages + 1).fill({}) },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'messages: at most 1024',
  },
  {
    name: 'too many stop strings',
    frame: { ...generate, stop: new Array(protocolLimits.maxStopStrings + 1).fill('.') },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'stop: at most 8',
  },
  {
    name: 'a bias of no token',
    frame: '{"type":"generate","id":"new","prompt":"p","logitBias":{"__proto__":1}}',
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'logitBias: ',
  },
  {
    name: 'aliases that contradict each other',
    frame: { ...generate, deterministic: true, is_deterministic: false },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'is_deterministic: ',
  },
  {
    name: 'an unknown field of a deterministic request',
    frame: { ...generate, deterministic: true, top_k: 4 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'unknown field "top_k"',
  },
  {
    name: 'a field named __proto__ of a deterministic request',
    frame: '{"type":"generate","id":"new","prompt":"p","is_deterministic":true,"__proto__":{"deterministic":false}}',
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'unknown field "__proto__"',
  },
  {
    name: 'an unknown field of a message of a deterministic request',
    frame: { type: 'generate', id: 'new', deterministic: true, messages: [{ role: 'u', content: 'c', name: 'n' }] },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'messages[0].name',
  },
  {
    name: 'another model',
    frame: { ...generate, model: 'gpt' },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'model: ',
  },
  {
    name: 'a prompt longer than the context',
    frame: { ...generate, prompt: 'word '.repeat(2000) },
    code: 'STET_ERR_CONTEXT_LENGTH',
    about: { id: 'new', seq: 0 },
    says: '2001 prompt tokens',
  },
  {
    name: 'a duplicate id',
    frame: { ...generate, id: 'open' },
    code: 'STET_ERR_DUPLICATE_ID',
    about: { id: 'open' },
    says: 'is open',
  },
  {
    name: 'a bad request under the id of an open stream',
    frame: { ...generate, id: 'open', maxTokens: 'many' },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'open' },
    says: 'maxTokens: ',
  },
  { name: 'no id', frame: { ...generate, id: undefined }, code: 'STET_ERR_BAD_REQUEST', about: {}, says: 'id: ' },
  { name: 'an empty id', frame: { ...generate, id: '' }, code: 'STET_ERR_BAD_REQUEST', about: {}, says: 'id: ' },
  { name: 'a number as id', frame: { ...generate, id: 1 }, code: 'STET_ERR_BAD_REQUEST', about: {}, says: 'id: ' },
  {
    name: 'an id one too long',
    frame: { ...generate, id: long },
    code: 'STET_ERR_BAD_REQUEST',
    about: {},
    says: 'id: ',
  },
  {
    name: 'the cancel of an unknown id',
    frame: { type: 'cancel', id: 'nobody' },
    code: 'STET_ERR_UNKNOWN_ID',
    about: { id: 'nobody' },
    says: 'no open stream',
  },
  {
    name: 'a resume of an unknown stream',
    frame: { type: 'resume', id: 'new', stream: 's', after: 0 },
    code: 'STET_ERR_UNKNOWN_STREAM',
    about: { id: 'new', seq: 0 },
    says: 'no such stream',
  },
  {
    name: 'a resume under the id of an open stream',
    frame: { type: 'resume', id: 'open', stream: 's', after: 0 },
    code: 'STET_ERR_DUPLICATE_ID',
    about: { id: 'open' },
    says: 'is open',
  },
  {
    name: 'a resume after less than nothing',
    frame: { type: 'resume', id: 'new', stream: 's', after: -1 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'after: ',
  },
  {
    name: 'a resume with a prompt',
    frame: { type: 'resume', id: 'new', stream: 's', after: 1, prompt: 'p' },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: '"prompt"',
  },
  {
    name: 'a resume of a handle without end',
    frame: { type: 'resume', id: 'new', stream: long, after: 1 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'stream: ',
  },
  {
    name: 'after without a hash',
    frame: { ...again, hash: undefined },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'after: needs hash',
  },
  {
    name: 'a hash without after',
    frame: { ...again, after: undefined },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'hash: ',
  },
  {
    name: 'a hash that is none',
    frame: { ...again, hash: 'A'.repeat(64) },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'hash: expected 64',
  },
  {
    name: 'after in an ordinary request',
    frame: { ...again, deterministic: false },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'after: needs a deterministic',
  },
  {
    name: 'after without a seed',
    frame: { ...again, seed: undefined },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'after: needs the seed',
  },
  {
    name: 'after nothing',
    frame: { ...again, after: 0 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'after: ',
  },
  {
    name: 'after more than is asked for',
    frame: { ...again, after: 5 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'maxTokens: ',
  },
  {
    name: 'a request without any credit',
    frame: { ...generate, credit: 0 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'credit: ',
  },
  {
    name: 'more credit than there may be',
    frame: { ...generate, credit: protocolLimits.maxCreditTokens + 1 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'new', seq: 0 },
    says: 'credit: ',
  },
  {
    name: 'credit for an unknown id',
    frame: { type: 'credit', id: 'nobody', n: 1 },
    code: 'STET_ERR_UNKNOWN_ID',
    about: { id: 'nobody' },
    says: 'no open stream',
  },
  {
    name: 'credit for a stream that needs none',
    frame: { type: 'credit', id: 'open', n: 1 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'open' },
    says: 'without credit',
  },
  {
    name: 'credit of a fraction',
    frame: { type: 'credit', id: 'open', n: 0.5 },
    code: 'STET_ERR_BAD_REQUEST',
    about: { id: 'open' },
    says: 'n: ',
  },
  { name: 'a cancel without id', frame: { type: 'cancel' }, code: 'STET_ERR_BAD_REQUEST', about: {}, says: 'id: ' },
  {
    name: 'a ping that counts nothing',
    frame: { type: 'ping', t: 'now' },
    code: 'STET_ERR_BAD_REQUEST',
    about: {},
    says: 't: ',
  },
  {
    name: 'a ping with more',
    frame: { type: 'ping', t: 1, x: 1 },
    code: 'STET_ERR_BAD_REQUEST',
    about: {},
    says: '"x"',
  },
];

describe('a bad frame', () => {
  it.each(badFrames)('is answered with its code, and harms nobody: $name', async ({ frame, code, about, says }) => {
    const { connect, engine } = await serve();
    const client = await connect();
    const goesOn = client.generate('open', { maxTokens: 600 });
    await client.until(() => client.frames.length > 3, 'the other stream');
    const before = engine.stats().running;
    const error = await client.refusalOf(frame);
    expect({ code: error.code, id: error.id, seq: error.seq }).toEqual({ code, id: about.id, seq: about.seq });
    expect(error.message).toContain(says);
    expect(error.message.length).toBeLessThan(400);
    expect(error.hint!.length).toBeGreaterThan(5);
    expect(error.retryable).toBe(false);
    expect(engine.stats().running).toBeLessThanOrEqual(before);
    client.streams.delete('new');
    expect((await goesOn).tokens).toHaveLength(600);
  });

  it('never repeats a long name in full, and counts fields beyond the first sixteen', async () => {
    const { connect } = await serve();
    const client = await connect();
    const fields = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`${index}-${'n'.repeat(100)}`, 1]));
    await client.generate('a', fields);
    const [accepted] = client.frames.filter((frame) => frame.type === 'accepted');
    const warnings = accepted!.warnings!;
    expect(warnings).toHaveLength(17);
    expect(warnings[16]).toBe('4984 more unknown fields');
    expect(Math.max(...warnings.map(({ length }) => length))).toBeLessThan(100);
    const error = await client.refusalOf({ type: 'ping', t: 1, ['k'.repeat(500_000)]: 1 });
    expect(error.message.length).toBeLessThan(400);
  });
});

describe('a frame at a limit', () => {
  it('is taken with an id of the greatest length', async () => {
    const { connect } = await serve();
    const client = await connect();
    expect((await client.generate(long.slice(1))).end!.type).toBe('done');
  });

  it('is taken with as many bytes as allowed, and one byte more closes the socket with 1009', async () => {
    const { connect } = await serve();
    const client = await connect();
    const padded = (bytes: number) => JSON.stringify({ type: 'ping', t: 1 }).padEnd(bytes, ' ');
    client.send(padded(protocolLimits.maxFrameBytes));
    await client.until(() => client.frames.length === 1, 'a pong');
    client.send(padded(protocolLimits.maxFrameBytes + 1));
    expect(await client.closed).toMatchObject({ code: 1009 });
  });
});

describe('a violation of WebSocket itself', () => {
  it('closes that socket with 1009 for a frame of 2 MiB; the streams of others go on, its own are freed', async () => {
    const { connect, engine, idle } = await serve();
    const culprit = await connect();
    const other = await connect();
    culprit.send({ type: 'generate', id: 'mine', prompt: 'p', maxTokens: 1000 });
    const goesOn = other.generate('open', { maxTokens: 600 });
    await culprit.until(() => culprit.frames.length > 3, 'frames');
    culprit.send('x'.repeat(2 * 1024 * 1024));
    expect(await culprit.closed).toMatchObject({ code: 1009 });
    expect(engine.stats().running).toBe(1);
    expect((await goesOn).tokens).toHaveLength(600);
    await idle();
  });

  it.each([
    { name: 'text that is not UTF-8', bytes: [0x81, 0x82, 0, 0, 0, 0, 0xc3, 0x28], code: 1007 },
    { name: 'a reserved opcode', bytes: [0x83, 0x80, 0, 0, 0, 0], code: 1002 },
    { name: 'a frame that is not masked', bytes: [0x81, 0x02, 0x7b, 0x7d], code: 1002 },
  ])('closes that socket with $code: $name', async ({ bytes, code }) => {
    const { connect, idle } = await serve();
    const client = await connect();
    const other = await connect();
    client.send({ type: 'generate', id: 'mine', prompt: 'p', maxTokens: 1000 });
    await client.until(() => client.frames.length > 3, 'frames');
    client.raw.write(Buffer.from(bytes));
    expect(await client.closed).toMatchObject({ code });
    expect((await other.generate('open')).end!.type).toBe('done');
    await idle();
  });
});

describe('whatever arrives', () => {
  const field = fc.oneof(fc.jsonValue(), fc.constantFrom(-1, 0, 1, 1e308, 'a', [], {}, null, true));
  const mutated = fc
    .tuple(
      fc.record({
        type: fc.constantFrom('generate', 'cancel', 'ping'),
        id: fc.constantFrom('f', 'g'),
        prompt: fc.string(),
      }),
      fc.dictionary(
        fc.constantFrom(
          'maxTokens',
          'seed',
          'stop',
          'messages',
          'logitBias',
          'promptTokens',
          't',
          'id',
          'logprobs',
          'model',
        ),
        field,
        { maxKeys: 3 },
      ),
    )
    .map(([base, fields]) => JSON.stringify({ maxTokens: 2, ...base, ...fields }));
  const frames = fc.oneof(
    mutated,
    fc.json(),
    fc.string({ unit: 'binary' }),
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
  );

  it('is answered or served, and the socket stays open', async () => {
    const { connect, idle } = await serve();
    const client = await connect();
    const batches = fc.array(frames, { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(batches, async (batch) => {
        for (const frame of batch) client.send(frame);
        const t = Math.random();
        client.send({ type: 'ping', t });
        await client.until(() => client.frames.some((frame) => frame.type === 'pong' && frame.t === t), 'the pong');
        await idle();
        const open = () => [...client.streams.values()].some(({ end }) => end === undefined);
        await client.until(() => !open(), 'the end of every stream');
        expect(client.frames.splice(0).length).toBeGreaterThanOrEqual(batch.length + 1);
        client.streams.clear();
      }),
      { numRuns: 100 },
    );
  });
});
