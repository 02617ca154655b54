import { createServer, IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { httpError, type JsonResponse, refuseUpgrade, sendJson } from './responses.js';

/** What one connection may take before it has shown any key; a slow one must not hold what others need. */
export interface HttpLimits {
  readonly maxConnections: number;
  readonly maxHeaderBytes: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveMs: number;
}

/** Timeouts are looked at so often at least. */
const MAX_CHECK_INTERVAL_MS = 1_000;

const wantsUpgrade = Symbol('wantsUpgrade');

/**
 * A request that is an upgrade only if it asks for a WebSocket. Node would take any other `Upgrade` header for one as well,
 * and some clients send `h2c` with everything; HTTP lets a server ignore that.
 */
class Request extends IncomingMessage {
  declare [wantsUpgrade]: boolean | null;

  get upgrade(): boolean {
    if (this[wantsUpgrade] !== true) return false;
    return this.method === 'CONNECT' || this.headers.upgrade?.toLowerCase() === 'websocket';
  }

  /** Node's parser sets what it has seen, the constructor null. */
  set upgrade(value: boolean | null) {
    this[wantsUpgrade] = value;
  }
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Node's HTTP server within `limits`, whose own refusals look like all others. It does not listen yet. */
export function createHttpServer(limits: HttpLimits, answer: Answer): Server {
  const server = createServer({
    IncomingMessage: Request,
    maxHeaderSize: limits.maxHeaderBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    // Node's own refusal has none of the headers that every answer has.
    requireHostHeader: false,
    connectionsCheckingInterval: Math.min(MAX_CHECK_INTERVAL_MS, Math.ceil(limits.headersTimeoutMs / 2)),
  });
  server.maxConnections = limits.maxConnections;
  const responses = new WeakMap<Duplex, ServerResponse>();
  server.on('request', (request, response) => {
    responses.set(request.socket, response);
    if (request.headers.host === undefined && request.httpVersion === '1.1') sendJson(response, hostRequired);
    else answer(request, response);
  });
  server.on('checkExpectation', (_request, response) =>
    sendJson(response, httpError(417, 'STET_ERR_BAD_REQUEST', 'the only expectation that is met is 100-continue')),
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const response = responses.get(socket);
    const isAnswering = response?.headersSent === true && !response.writableFinished;
    // A second answer in the middle of one would be read as a part of it.
    if (socket.writable && !isAnswering) refuseUpgrade(socket, violation(error.code));
    else socket.destroy();
  });
  return server;
}

const hostRequired = httpError(400, 'STET_ERR_BAD_REQUEST', 'the request names no host', { Connection: 'close' });

/** The answer to bytes that are no request, or not in time. */
function violation(code: string | undefined): JsonResponse {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return httpError(431, 'STET_ERR_BAD_REQUEST', 'the headers are too large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return httpError(408, 'STET_ERR_BAD_REQUEST', 'the request did not arrive in time');
    default:
      return httpError(400, 'STET_ERR_BAD_REQUEST', 'what arrived is not HTTP');
  }
}
