import { STATUS_CODES } from 'node:http';
import * as z from 'zod';
import type { Route } from '../http/router.js';
import { errorSchema } from './answer-schemas.js';
import { type Operation, operations } from './operations.js';

export const OPENAPI_PATH = '/openapi.json';

/** `GET /openapi.json`: an OpenAPI 3.1 document of `routes` and of itself. */
export function openApiRoute(routes: readonly Route[]): Route {
  const self: Route = {
    method: 'GET',
    path: OPENAPI_PATH,
    access: 'open',
    handle: () => ({ status: 200, body: document }),
  };
  const document = openApiDocument([...routes, self]);
  return self;
}

function openApiDocument(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = templateOf(route.path);
    const operation = operations[`${route.method} ${path}`] ?? { summary: path, answers: { 200: undefined } };
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describe(route, path, operation) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Stet',
      version: '1',
      description: 'Language models with selective determinism. The native protocol is described in docs/PROTOCOL.md.',
    },
    paths,
    components: {
      schemas: { Error: schemaOf(errorSchema) },
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function describe({ method, access }: Route, path: string, operation: Operation): object {
  const { summary, request, answers, event, errors = [] } = operation;
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const responses: Record<string, object> = {};
  for (const [status, schema] of Object.entries(answers)) responses[status] = answer(Number(status), schema, event);
  for (const status of access === 'keyed' ? [401, ...errors] : errors) responses[status] = errorAnswer(status);
  return {
    operationId: operationId(method, path),
    summary,
    ...(parameters.length > 0 && { parameters }),
    ...(request && { requestBody: { required: true, content: { 'application/json': { schema: schemaOf(request) } } } }),
    responses,
    // An empty requirement: without keys, the server asks nobody for one.
    security: access === 'keyed' ? [{ key: [] }, {}] : [],
  };
}

function answer(status: number, schema: z.ZodType | undefined, event: z.ZodType | undefined): object {
  return {
    description: STATUS_CODES[status] ?? 'Answer',
    ...(schema && {
      content: {
        'application/json': { schema: schemaOf(schema) },
        ...(event && { 'text/event-stream': { schema: schemaOf(event) } }),
      },
    }),
  };
}

function errorAnswer(status: number): object {
  return {
    description: STATUS_CODES[status] ?? 'Error',
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
}

/** The dialect is that of OpenAPI 3.1, which need not be said of every schema. */
function schemaOf(schema: z.ZodType): object {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest;
}

/** A path that ends in `*` takes one name there. */
function templateOf(path: string): string {
  return path.endsWith('*') ? `${path.slice(0, -1)}{id}` : path;
}

function operationId(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return [method.toLowerCase(), ...words.map((word) => word[0]!.toUpperCase() + word.slice(1))].join('');
}
