import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { StetError, type StetErrorCode } from '@stet/backend';
import { retryableCodes } from '../protocol/error-frame.js';
import { securityHeaders } from './headers.js';

/** An answer with a JSON body. */
export interface JsonResponse {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export function sendJson(response: ServerResponse, { status, body, headers }: JsonResponse): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { ...jsonHeaders(text), ...headers }).end(text);
}

/** Answers an upgrade that is refused, or bytes that are no request, on the bare socket, and destroys it. */
export function refuseUpgrade(socket: Duplex, { status, body, headers }: JsonResponse): void {
  const text = JSON.stringify(body);
  const lines = Object.entries({ Connection: 'close', ...jsonHeaders(text), ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.on('error', () => socket.destroy());
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`);
}

/**
 * The shape that clients of OpenAI's API know. Those clients try again after every 5xx, so what can only fail again says
 * so.
 */
export function httpError(
  status: number,
  code: StetErrorCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): JsonResponse {
  const { hint } = new StetError(code, message);
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  const isHopeless = status >= 500 && !retryableCodes.has(code);
  return {
    status,
    headers: { ...(isHopeless && { 'x-should-retry': 'false' }), ...headers },
    body: { error: { message: `${message}. ${hint}`, type, param: null, code } },
  };
}

export function notFound(request: IncomingMessage): JsonResponse {
  return httpError(404, 'STET_ERR_NOT_FOUND', `there is nothing at ${pathOf(request).slice(0, 256)}`);
}

/** The path of a request, without its query. */
export function pathOf(request: IncomingMessage): string {
  return (request.url ?? '/').split('?', 1)[0]!;
}

function jsonHeaders(text: string): Record<string, string> {
  return {
    ...securityHeaders,
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(text)),
  };
}
