import { createServer } from '@stet/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chatRequestSchema, textRequestSchema } from '../src/openai/request-schemas.js';
import { serve } from './support/harness.js';
import { engineCalling } from './support/scripted-calls.js';
import { talesServers } from './support/tales-server.js';

interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Record<string, Record<string, OperationObject>>;
  readonly components: { readonly schemas: Record<string, object>; readonly securitySchemes: Record<string, object> };
}

interface OperationObject {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
  readonly requestBody?: { readonly content: Record<string, { readonly schema: object }> };
  readonly responses: Record<string, { readonly description: string; readonly content?: Record<string, object> }>;
  readonly security: readonly Record<string, readonly string[]>[];
}

describe('GET /openapi.json', () => {
  let document: Document;
  let close = async () => {};

  beforeAll(async () => {
    const server = await createServer({ engine: engineCalling(async () => ({})), port: 0, limits: { drainMs: 0 } });
    close = () => server.close();
    document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
    expect(document.openapi).toBe('3.1.0');
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { responses }] of Object.entries(methods)) {
        const response = await fetch(server.url + path.replace('{id}', 'scripted'), { method: method.toUpperCase() });
        await response.text();
        // Without a body or an upgrade, each route answers in some way that the document knows, and none is missing.
        expect([404, 405]).not.toContain(response.status);
        expect(Object.keys(responses), `${method} ${path}`).toContain(String(response.status));
      }
    }
  });

  afterAll(() => close());

  it('names every route', () => {
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining([
        ...['/health', '/ready', '/v1/stream', '/v1/tickets', '/openapi.json'],
        ...['/v1/models', '/v1/models/{id}', '/v1/chat/completions', '/v1/completions'],
      ]),
    );
  });

  it('has the structure of OpenAPI 3.1', () => {
    expect(document.info).toMatchObject({ title: expect.any(String), version: expect.any(String) });
    const ids = new Set<string>();
    for (const [path, methods] of Object.entries(document.paths)) {
      expect(path).toMatch(/^\//);
      for (const [method, operation] of Object.entries(methods)) {
        expect(['get', 'post']).toContain(method);
        expect(ids.has(operation.operationId)).toBe(false);
        ids.add(operation.operationId);
        expect(operation.summary).not.toBe('');
        const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
        expect((operation.parameters ?? []).map(({ name }) => name)).toEqual(named);
        for (const parameter of operation.parameters ?? [])
          expect(parameter).toMatchObject({ in: 'path', required: true, schema: { type: 'string' } });
        for (const [status, response] of Object.entries(operation.responses)) {
          expect(status).toMatch(/^[1-5]\d\d$/);
          expect(response.description).not.toBe('');
        }
        for (const requirement of operation.security)
          for (const name of Object.keys(requirement)) expect(document.components.securitySchemes).toHaveProperty(name);
      }
    }
  });

  it('refers to nothing that it does not have, and every schema is JSON Schema without a dialect of its own', () => {
    const visit = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      for (const [key, inner] of Object.entries(value)) {
        expect(key).not.toBe('$schema');
        if (key === '$ref') {
          const target = String(inner).split('/').slice(1);
          expect(target.reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], document)).toBeDefined();
        }
        visit(inner);
      }
    };
    visit(document);
  });

  it('describes a request, an answer and an event of both completions', () => {
    for (const path of ['/v1/chat/completions', '/v1/completions']) {
      const operation = document.paths[path]!.post!;
      const { schema } = operation.requestBody!.content['application/json']!;
      expect(schema).toMatchObject({ type: 'object', properties: { deterministic: expect.any(Object) } });
      expect(Object.keys(operation.responses['200']!.content!)).toEqual(['application/json', 'text/event-stream']);
      expect(operation.security).toEqual([{ key: [] }, {}]);
    }
  });

  it('names no completions where the engine has none', async () => {
    const { server } = await serve();
    const plain = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
    expect(Object.keys(plain.paths)).not.toContain('/v1/completions');
    expect((await fetch(`${server.url}/v1/completions`, { method: 'POST' })).status).toBe(404);
  });
});

describe('the described requests', { timeout: 120_000 }, () => {
  const tales = talesServers();
  const chat = { messages: [{ role: 'user', content: 'The king' }], max_tokens: 1 };
  const text = { prompt: 'The king', max_tokens: 1 };

  /** Fields in their bounds and one past them. */
  const fields: object[] = [
    {},
    ...[-1, 0, 1, 1.5, '1', null].map((max_tokens) => ({ max_tokens })),
    ...[-0.1, 0, 1.5, 100, 101, true].map((temperature) => ({ temperature })),
    ...[0, 0.5, 1, 1.1].map((top_p) => ({ top_p })),
    ...[-1, 0, 40, 0.5].map((top_k) => ({ top_k })),
    ...[-0.1, 0, 1, 2].map((min_p) => ({ min_p })),
    ...[0, 1, 2, 16, 17].map((n) => ({ n })),
    ...['', '.', [], ['a', 'b'], Array(8).fill('a'), Array(9).fill('a'), 'a'.repeat(257), 7].map((stop) => ({ stop })),
    ...[-2, 2, 2.1].map((frequency_penalty) => ({ frequency_penalty })),
    ...[-2.1, 0, 2].map((presence_penalty) => ({ presence_penalty })),
    ...[0, 0.1, 10, 11].map((repetition_penalty) => ({ repetition_penalty })),
    ...[{}, { 5: 1 }, { 5: 101 }, { x: 1 }, { '01': 1 }, [], 3].map((logit_bias) => ({ logit_bias })),
    ...[-1, 0, Number.MAX_SAFE_INTEGER, 2 ** 53].map((seed) => ({ seed })),
    ...[null, {}, { include_usage: true }, { include_usage: 1 }, 5].map((stream_options) => ({ stream_options })),
    ...[true, false, 1].map((ignore_eos) => ({ ignore_eos })),
    ...[true, false, 'yes'].map((deterministic) => ({ deterministic })),
    { user: 'me', some_new_field: 1 },
  ];
  const chatOnly: object[] = [
    ...[[], 'hi', null, [{ role: 'user' }], [{ role: '', content: 'a' }], [{ role: 'user', content: [] }]].map(
      (messages) => ({ messages }),
    ),
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'The king' }], name: 'me' }] },
    { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
    { logprobs: true, top_logprobs: 20 },
    { logprobs: true, top_logprobs: 21 },
    { logprobs: 1 },
    { max_completion_tokens: 1 },
  ];
  const textOnly: object[] = [
    ...['', null, [], [5], [5, 'a'], ['The king'], ['a', 'b'], [[5]], [[5], [6]], [-1], 7].map((prompt) => ({
      prompt,
    })),
    ...[0, 20, 21, true].map((logprobs) => ({ logprobs })),
    ...[true, false, null, 1].map((echo) => ({ echo })),
    { echo: true, max_tokens: 0 },
  ];

  /** What cannot be said in a schema: how fields go together, and what a prompt's text comes to. */
  const finer = (body: {
    prompt?: unknown;
    messages?: readonly { content?: unknown }[];
    max_tokens?: unknown;
    echo?: unknown;
  }) =>
    body.prompt === '' ||
    (body.max_tokens === 0 && body.echo !== true) ||
    (Array.isArray(body.messages) && Array.isArray(body.messages[0]?.content) && body.messages[0].content.length === 0);

  it.each([
    ['/v1/chat/completions', chatRequestSchema, [...fields, ...chatOnly].map((one) => ({ ...chat, ...one }))],
    ['/v1/completions', textRequestSchema, [...fields, ...textOnly].map((one) => ({ ...text, ...one }))],
  ] as const)('of %s are those that the engine takes', async (path, schema, bodies) => {
    let taken = 0;
    for (const body of bodies) {
      const response = await fetch(tales.server.url + path, {
        ...{ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) },
      });
      const answer = await response.text();
      if (response.status === 200) taken++;
      expect([200, 400], answer).toContain(response.status);
      if (!finer(body))
        expect(response.status === 200, JSON.stringify(body) + answer).toBe(schema.safeParse(body).success);
    }
    expect(taken).toBeGreaterThan(30);
    expect(taken).toBeLessThan(bodies.length - 20);
  });
});
