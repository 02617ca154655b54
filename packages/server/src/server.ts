import { createServer as createHttpServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { StetError } from '@stet/backend';
import type { Engine } from '@stet/engine';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Authenticator, isRefusal, openDoor, type Principal } from './auth/principal.js';
import { Connection } from './connection.js';
import { isLoopbackHost, isOriginAllowed } from './hosts.js';
import { httpError, type JsonResponse, notFound, pathOf, refuseUpgrade } from './http/responses.js';
import { Router } from './http/router.js';
import { type ServerState, stateRoutes } from './http/state-routes.js';
import { resolveServerLimits, type ServerLimits } from './limits.js';
import { type Logger, silentLogger } from './logger.js';
import { closeCodes, DEFAULT_PORT, protocolLimits, STREAM_PATH, SUBPROTOCOL } from './protocol/index.js';

export interface ServerOptions {
  /** Stays the caller's: the server never closes it. */
  readonly engine: Engine;
  /** A loopback address, `127.0.0.1` by default: there are no API keys yet, and without one nobody else may connect. */
  readonly host?: string;
  /** 8642 by default; 0 takes any free one. */
  readonly port?: number;
  readonly limits?: Partial<ServerLimits>;
  /** Origins whose pages may connect, such as `https://example.org`; by default the pages of this machine. */
  readonly allowedOrigins?: readonly string[];
  /** Silent by default. */
  readonly logger?: Logger;
}

export interface ServerStats {
  readonly sockets: number;
  readonly streams: number;
  /** Bytes handed to sockets that the operating system has not taken yet. */
  readonly unsentBytes: number;
}

export interface StetServer {
  /** `http://host:port`, with the port that was really taken. */
  readonly url: string;
  stats(): ServerStats;
  /**
   * Stops listening, lets running streams finish for `drainMs` (1001), then cuts off the rest (1012). Resolves when every
   * socket is closed and every request is freed. May be called twice.
   */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves an engine over HTTP and WebSocket on one port, as docs/PROTOCOL.md describes.
 * Rejects with `STET_ERR_UNSUPPORTED` for an option out of range and with `STET_ERR_CONNECTION` when it cannot listen.
 */
export async function createServer(options: ServerOptions): Promise<StetServer> {
  const server = new StreamServer(options);
  await server.listen(options.host ?? '127.0.0.1', options.port ?? DEFAULT_PORT);
  return server;
}

class StreamServer implements StetServer {
  url = '';
  readonly #engine: Engine;
  readonly #limits: ServerLimits;
  readonly #logger: Logger;
  readonly #allowedOrigins: readonly string[] | undefined;
  readonly #authenticator: Authenticator = openDoor;
  readonly #http: Server;
  readonly #webSockets: WebSocketServer;
  readonly #connections = new Set<Connection>();
  #heartbeat: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor({ engine, limits, allowedOrigins, logger }: ServerOptions) {
    this.#engine = engine;
    this.#limits = resolveServerLimits(limits);
    this.#allowedOrigins = allowedOrigins;
    this.#logger = logger ?? silentLogger;
    const router = new Router({
      routes: stateRoutes(() => this.#state()),
      authenticator: this.#authenticator,
      logger: this.#logger,
    });
    this.#http = createHttpServer((request, response) => void router.answer(request, response));
    this.#http.on('upgrade', (request, socket, head) => this.#onUpgrade(request, socket, head));
    this.#webSockets = new WebSocketServer(webSocketOptions(this.#limits));
  }

  async listen(host: string, port: number): Promise<void> {
    if (!isLoopbackHost(host))
      throw new StetError(
        'STET_ERR_UNSUPPORTED',
        `host ${host}: without API keys the server listens on loopback only, such as 127.0.0.1`,
      );
    await new Promise<void>((resolve, reject) => {
      this.#http.once('error', (cause: NodeJS.ErrnoException) => {
        const message = `cannot listen on ${host}, port ${port}: ${cause.code ?? cause.message}`;
        reject(new StetError('STET_ERR_CONNECTION', message, { cause }));
      });
      this.#http.listen(port, host, resolve);
    });
    const { address, family, port: taken } = this.#http.address() as AddressInfo;
    this.url = `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}`;
    this.#heartbeat = setInterval(() => this.#beat(), this.#limits.heartbeatMs);
    this.#logger.info({ url: this.url }, 'listening on loopback only, because there are no API keys');
  }

  stats(): ServerStats {
    const connections = [...this.#connections];
    return {
      sockets: connections.length,
      streams: connections.reduce((sum, connection) => sum + connection.streamCount, 0),
      unsentBytes: connections.reduce((sum, connection) => sum + connection.unsentBytes, 0),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#logger.info({ ...this.stats() }, 'closing');
    const stopped = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    for (const connection of this.#connections) connection.drain();
    const deadline = setTimeout(() => {
      for (const connection of this.#connections) connection.restart();
    }, this.#limits.drainMs);
    while (this.#connections.size > 0) await Promise.all([...this.#connections].map(({ finished }) => finished));
    clearTimeout(deadline);
    clearInterval(this.#heartbeat);
    for (const socket of this.#webSockets.clients) socket.terminate();
    this.#http.closeAllConnections();
    await stopped;
  }

  #onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const admitted = this.#refusal(request) ?? this.#authenticator.authenticate(request);
    if (isRefusal(admitted)) refuseUpgrade(socket, admitted);
    else this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => this.#onSocket(webSocket, admitted));
  }

  #refusal(request: IncomingMessage): JsonResponse | undefined {
    if (pathOf(request) !== STREAM_PATH) return notFound(request);
    if (this.#closing !== undefined)
      return httpError(503, 'STET_ERR_SHUTTING_DOWN', 'the server is going away', { 'Retry-After': '5' });
    if (!isOriginAllowed(request.headers.origin, this.#allowedOrigins))
      return httpError(403, 'STET_ERR_FORBIDDEN_ORIGIN', 'pages of this origin may not connect');
    if (this.#webSockets.clients.size >= this.#limits.maxSockets)
      return httpError(503, 'STET_ERR_TOO_MANY_SOCKETS', `at most ${this.#limits.maxSockets} sockets may be open`, {
        'Retry-After': '5',
      });
    return undefined;
  }

  #onSocket(socket: WebSocket, principal: Principal): void {
    if (socket.protocol !== '' && socket.protocol !== SUBPROTOCOL) {
      socket.on('error', () => socket.terminate());
      socket.close(closeCodes.unsupportedSubprotocol, 'STET_ERR_UNSUPPORTED');
      return;
    }
    const connection = new Connection(socket, {
      engine: this.#engine,
      limits: this.#limits,
      logger: this.#logger,
      principal,
    });
    this.#connections.add(connection);
    void connection.finished.then(() => this.#connections.delete(connection));
    this.#logger.info({ sockets: this.#connections.size }, 'socket opened');
  }

  #beat(): void {
    for (const connection of this.#connections) connection.beat();
  }

  #state(): ServerState {
    const { model, backend, fingerprint, contextLength } = this.#engine.info;
    return { phase: this.#closing === undefined ? 'ready' : 'closing', model, backend, fingerprint, contextLength };
  }
}

function webSocketOptions(limits: ServerLimits) {
  return {
    noServer: true,
    clientTracking: true,
    maxPayload: protocolLimits.maxFrameBytes,
    perMessageDeflate: false,
    closeTimeout: limits.closeHandshakeMs,
    /** Repeats a subprotocol it does not speak, because only then can the client read the close code that says so. */
    handleProtocols: (offered: Set<string>): string | false =>
      offered.has(SUBPROTOCOL) ? SUBPROTOCOL : (offered.values().next().value ?? false),
  };
}
