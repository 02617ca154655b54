import * as z from 'zod';
import { STREAM_PATH } from '../protocol/index.js';
import {
  chatChunkSchema,
  chatCompletionSchema,
  modelListSchema,
  modelSchema,
  textChunkSchema,
  textCompletionSchema,
} from './answer-schemas.js';
import { chatRequestSchema, textRequestSchema } from './request-schemas.js';

/** What the OpenAPI document says of one method of one path. */
export interface Operation {
  readonly summary: string;
  readonly request?: z.ZodType;
  /** By status; one without a schema has a body that the summary describes, or none. */
  readonly answers: Readonly<Record<number, z.ZodType | undefined>>;
  /** One event of the answer where the request asks for a stream. */
  readonly event?: z.ZodType;
  /** Statuses of errors, besides those that every route may give. */
  readonly errors?: readonly number[];
}

const completionErrors = [400, 404, 408, 413, 415, 429, 500, 503] as const;

/** By method and path, as routes name them. */
export const operations: Readonly<Record<string, Operation>> = {
  'GET /health': { summary: 'Whether the process lives.', answers: { 200: z.object({ status: z.literal('ok') }) } },
  'GET /ready': {
    summary: 'Whether the model is loaded and requests are taken.',
    answers: { 200: z.looseObject({ status: z.literal('ready'), model: z.string(), fingerprint: z.string() }) },
    errors: [503],
  },
  'GET /metrics': { summary: 'Metrics in the text format of Prometheus.', answers: { 200: undefined } },
  'GET /openapi.json': { summary: 'This document.', answers: { 200: undefined } },
  [`GET ${STREAM_PATH}`]: {
    summary: 'The WebSocket of the native protocol, subprotocol stet.v1; see docs/PROTOCOL.md.',
    answers: { 101: undefined },
    errors: [403, 426, 429, 503],
  },
  'POST /v1/tickets': {
    summary: 'A ticket for one WebSocket of a page, which cannot send a key.',
    answers: { 200: z.object({ ticket: z.string(), expiresInMs: z.int() }) },
    errors: [429],
  },
  'GET /v1/models': { summary: 'The models that are served.', answers: { 200: modelListSchema } },
  'GET /v1/models/{id}': { summary: 'One model.', answers: { 200: modelSchema }, errors: [404] },
  'POST /v1/chat/completions': {
    summary: 'Answers to a conversation.',
    request: chatRequestSchema,
    answers: { 200: chatCompletionSchema },
    event: chatChunkSchema,
    errors: completionErrors,
  },
  'POST /v1/completions': {
    summary: 'Continuations of a prompt.',
    request: textRequestSchema,
    answers: { 200: textCompletionSchema },
    event: textChunkSchema,
    errors: completionErrors,
  },
};
