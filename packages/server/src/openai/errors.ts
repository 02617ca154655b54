import type { StetError, StetErrorCode } from '@stet/backend';
import { retryAfter } from '../http/headers.js';
import { httpError, type JsonResponse } from '../http/responses.js';

/** Where a client is gone before its answer: nobody reads it, but logs and metrics do. */
export const CLIENT_GONE = 499;

/** The status of every error that a request can meet; any other is a failure of the server, 500. */
const statuses: Partial<Record<StetErrorCode, number>> = {
  STET_ERR_BAD_REQUEST: 400,
  STET_ERR_CONTEXT_LENGTH: 400,
  STET_ERR_KV_CAPACITY: 400,
  STET_ERR_UNSUPPORTED: 400,
  STET_ERR_CANONICAL_REFUSED: 400,
  STET_ERR_BAD_CHAT_TEMPLATE: 400,
  STET_ERR_BAD_TOKENIZER: 400,
  STET_ERR_UNKNOWN_MODEL: 404,
  STET_ERR_QUEUE_FULL: 429,
  STET_ERR_RATE_LIMITED: 429,
  STET_ERR_ABORTED: CLIENT_GONE,
  STET_ERR_SHUTTING_DOWN: 503,
  STET_ERR_ENGINE_CLOSED: 503,
  STET_ERR_DEVICE_LOST: 503,
};

/** Nobody knows when a queue has room again or another server has come up. */
const RETRY_AFTER_MS: Readonly<Record<number, number>> = { 429: 1_000, 503: 5_000 };

/**
 * An error of the engine in the shape, status and headers that clients of OpenAI's API know; `param` is the field that
 * the message begins with.
 */
export function errorResponse(error: StetError, fields: ReadonlySet<string> = new Set()): JsonResponse {
  const status = statuses[error.code] ?? 500;
  const retryMs = RETRY_AFTER_MS[status];
  const headers = retryMs === undefined ? {} : retryAfter(retryMs);
  const response = httpError(status, error.code, error.message, headers);
  const { error: shape } = response.body as { readonly error: object };
  return { ...response, body: { error: { ...shape, param: paramOf(error, fields) } } };
}

function paramOf({ message }: StetError, fields: ReadonlySet<string>): string | null {
  const name = /^[a-z_]+/.exec(message)?.[0];
  return name !== undefined && fields.has(name) ? name : null;
}
