import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { StetError, type StetErrorCode } from '@stet/backend';
import { STREAM_PATH } from './protocol/index.js';

/** An answer with a JSON body. */
export interface JsonResponse {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

type Route = () => JsonResponse;

/** What the plain HTTP routes tell about the server. */
export interface HttpState {
  readonly phase: 'ready' | 'closing';
  readonly model: string;
  readonly backend: string;
  readonly fingerprint: string;
  readonly contextLength: number;
}

/** Answers a request that is no upgrade. */
export function handleHttp(request: IncomingMessage, response: ServerResponse, state: () => HttpState): void {
  const { status, body, headers } = answer(request, state);
  request.resume();
  const text = JSON.stringify(body);
  response.writeHead(status, { ...jsonHeaders(text), ...headers }).end(text);
}

/** Answers an upgrade that is refused, on the bare socket, and destroys it. */
export function refuseUpgrade(socket: Duplex, { status, body, headers }: JsonResponse): void {
  const text = JSON.stringify(body);
  const lines = Object.entries({ Connection: 'close', ...jsonHeaders(text), ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.on('error', () => socket.destroy());
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`);
}

/** The shape that clients of OpenAI's API know. */
export function httpError(
  status: number,
  code: StetErrorCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): JsonResponse {
  const { hint } = new StetError(code, message);
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  return { status, headers, body: { error: { message: `${message}. ${hint}`, type, param: null, code } } };
}

/** The path of a request, without its query. */
export function pathOf(request: IncomingMessage): string {
  return (request.url ?? '/').split('?', 1)[0]!;
}

export function notFound(request: IncomingMessage): JsonResponse {
  return httpError(404, 'STET_ERR_NOT_FOUND', `there is nothing at ${pathOf(request).slice(0, 256)}`);
}

function answer(request: IncomingMessage, state: () => HttpState): JsonResponse {
  const routes: Readonly<Record<string, Route>> = {
    '/health': () => ({ status: 200, body: { status: 'ok' } }),
    '/ready': () => ready(state()),
    [STREAM_PATH]: upgradeRequired,
  };
  const path = pathOf(request);
  if (!Object.hasOwn(routes, path)) return notFound(request);
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return httpError(405, 'STET_ERR_METHOD_NOT_ALLOWED', `${request.method} is not allowed here`, {
      Allow: 'GET, HEAD',
    });
  return routes[path]!();
}

function ready({ phase, ...model }: HttpState): JsonResponse {
  return phase === 'ready'
    ? { status: 200, body: { status: 'ready', ...model } }
    : httpError(503, 'STET_ERR_SHUTTING_DOWN', 'the server is going away');
}

function upgradeRequired(): JsonResponse {
  return httpError(426, 'STET_ERR_BAD_REQUEST', `${STREAM_PATH} speaks WebSocket only`, { Upgrade: 'websocket' });
}

function jsonHeaders(text: string): Record<string, string> {
  return {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(text)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  };
}
