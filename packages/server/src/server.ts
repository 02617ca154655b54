import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { StetError, type StetErrorCode } from '@stet/backend';
import type { Engine, EngineHealth, ObservableEngine } from '@stet/engine';
import { type WebSocket, WebSocketServer } from 'ws';
import { Admission, admissionError } from './auth/admission.js';
import { KeyAuthenticator } from './auth/key-authenticator.js';
import { type ApiKey, KeyRing } from './auth/keys.js';
import { type Authenticator, isRefusal, openDoor, type Principal } from './auth/principal.js';
import { ticketRoute } from './auth/ticket-route.js';
import { TicketOffice } from './auth/tickets.js';
import { Connection } from './connection.js';
import { checkOrigins, isLoopbackHost } from './hosts.js';
import { CrossOrigin } from './http/cors.js';
import { retryAfter } from './http/headers.js';
import { createHttpServer } from './http/http-server.js';
import { Pages } from './http/pages.js';
import { httpError, type JsonResponse, notFound, pathOf, refuseUpgrade } from './http/responses.js';
import { type AnsweredRequest, type Route, Router } from './http/router.js';
import { type ServerState, stateRoutes } from './http/state-routes.js';
import { resolveServerLimits, type ServerLimits } from './limits.js';
import { type Logger, silentLogger, withFields } from './logger.js';
import { METRICS_PATH, type MetricsAccess, metricsRoute, resolveMetricsAccess } from './metrics/metrics-route.js';
import { ServerMetrics } from './metrics/server-metrics.js';
import { hasOpenAiCalls, type OpenAiCalls } from './openai/calls.js';
import { openApiRoute } from './openai/openapi.js';
import { openAiRoutes } from './openai/routes.js';
import { Runs } from './openai/runs.js';
import {
  chooseSubprotocol,
  closeCodes,
  DEFAULT_PORT,
  protocolLimits,
  STREAM_PATH,
  SUBPROTOCOL,
} from './protocol/index.js';
import { type RegistryStats, StreamRegistry } from './streams/registry.js';

const DEFAULT_HOST = '127.0.0.1';
/** When to come back to a server that goes away or is full. */
const UNAVAILABLE_RETRY_MS = 5_000;

export interface ServerOptions {
  /**
   * Stays the caller's: the server never closes it. One without OpenAI's calls is served without those routes; one that
   * cannot be watched has its totals in the metrics, and nothing of single steps and requests.
   */
  readonly engine: Engine & Partial<OpenAiCalls> & Partial<ObservableEngine>;
  /** Who may connect: whoever has one of these keys. Without, everybody who can reach the server, on loopback alone. */
  readonly keys?: readonly ApiKey[];
  /** `127.0.0.1` by default; without `keys` it must be a loopback address. */
  readonly host?: string;
  /** 8642 by default; 0 takes any free one. */
  readonly port?: number;
  readonly limits?: Partial<ServerLimits>;
  /** Origins whose pages may connect, such as `https://example.org`; by default the pages of this machine. */
  readonly allowedOrigins?: readonly string[];
  /** Who may read `/metrics`. `auto`, the default: everybody on a loopback host, else whoever has a key. */
  readonly metrics?: MetricsAccess;
  /**
   * A folder whose files are served at `/` to everybody who can reach the server, where no route of the protocol is.
   * Names that begin with a dot, or have other characters than letters, digits and `._~@-`, are not served.
   */
  readonly pages?: string;
  /** Silent by default. */
  readonly logger?: Logger;
}

export interface ServerStats extends RegistryStats {
  readonly sockets: number;
  /** Streams that have a socket, and requests of HTTP clients that are not answered yet. */
  readonly streams: number;
  /** Bytes handed to sockets that the operating system has not taken yet. */
  readonly unsentBytes: number;
}

export interface StetServer {
  /** `http://host:port`, with the port that was really taken. */
  readonly url: string;
  stats(): ServerStats;
  /**
   * Takes other keys. Whoever's key is no more loses sockets (1008), requests and tickets at once; who keeps name and key
   * goes on, with the new limits. Throws, and changes nothing, `STET_ERR_BAD_CONFIG` for keys that are not in order and
   * `STET_ERR_UNSUPPORTED` on a server that was created without keys.
   */
  replaceKeys(keys: readonly ApiKey[]): void;
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
  const { slowReaderMs } = resolveServerLimits(options.limits);
  const pages = options.pages === undefined ? undefined : await Pages.open(options.pages, { slowReaderMs });
  const server = new StreamServer(options, pages);
  await server.listen(options.host ?? DEFAULT_HOST, options.port ?? DEFAULT_PORT);
  return server;
}

class StreamServer implements StetServer {
  url = '';
  readonly #engine: ServerOptions['engine'];
  readonly #limits: ServerLimits;
  readonly #logger: Logger;
  readonly #crossOrigin: CrossOrigin;
  readonly #keys: KeyRing | undefined;
  readonly #tickets: TicketOffice;
  readonly #admission = new Admission();
  readonly #streams: StreamRegistry;
  /** Of HTTP clients. */
  readonly #runs = new Runs();
  readonly #authenticator: Authenticator;
  readonly #router: Router;
  readonly #metrics: ServerMetrics | undefined;
  readonly #http: Server;
  readonly #webSockets: WebSocketServer;
  readonly #connections = new Set<Connection>();
  #heartbeat: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ServerOptions, pages: Pages | undefined) {
    const { engine, keys, limits, allowedOrigins, logger, host = DEFAULT_HOST, metrics = 'auto' } = options;
    const metricsAccess = resolveMetricsAccess(metrics, host);
    this.#engine = engine;
    this.#limits = resolveServerLimits(limits);
    checkOrigins(allowedOrigins ?? []);
    this.#crossOrigin = new CrossOrigin(allowedOrigins);
    this.#logger = logger ?? silentLogger;
    this.#streams = new StreamRegistry({
      engine,
      limits: this.#limits,
      logger: this.#logger,
      onEnded: (outcome) => this.#metrics?.streamEnded(outcome),
    });
    const gauges = () => {
      const { streams, ...stats } = this.stats();
      const httpRuns = this.#runs.count;
      return { ...stats, httpRuns, attachedStreams: streams - httpRuns, isReady: this.#isReady };
    };
    this.#metrics = metricsAccess === 'off' ? undefined : new ServerMetrics(engine, gauges);
    this.#tickets = new TicketOffice(this.#limits);
    this.#keys = keys && new KeyRing(keys);
    this.#authenticator = this.#keys ? new KeyAuthenticator(this.#keys, this.#tickets) : openDoor;
    this.#router = new Router({
      routes: this.#routes(engine, metricsAccess),
      ...(pages && { pages }),
      authenticator: this.#authenticator,
      crossOrigin: this.#crossOrigin,
      logger: this.#logger,
      slowReaderMs: this.#limits.slowReaderMs,
      onAnswered: (answered) => this.#onAnswered(answered),
    });
    this.#http = createHttpServer(this.#limits, (request, response) => void this.#router.answer(request, response));
    this.#http.on('upgrade', (request, socket, head) => this.#onUpgrade(request, socket, head));
    this.#webSockets = new WebSocketServer(webSocketOptions(this.#limits));
  }

  #routes(engine: ServerOptions['engine'], metricsAccess: Exclude<MetricsAccess, 'auto'>): Route[] {
    const routes = [...stateRoutes(() => this.#state()), ticketRoute(this.#tickets, this.#admission)];
    if (this.#metrics && metricsAccess !== 'off')
      routes.push(metricsRoute(this.#metrics, metricsAccess, this.#limits.slowReaderMs));
    if (hasOpenAiCalls(engine)) {
      const { model } = engine.info;
      const context = {
        model,
        admission: this.#admission,
        runs: this.#runs,
        limits: this.#limits,
        logger: this.#logger,
      };
      routes.push(...openAiRoutes(engine, context, Math.floor(Date.now() / 1000)));
    }
    return [...routes, openApiRoute(routes)];
  }

  async listen(host: string, port: number): Promise<void> {
    if (this.#keys === undefined && !isLoopbackHost(host))
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
    const reach = this.#keys
      ? 'listening for whoever has a key'
      : 'listening on loopback only, because there are no API keys';
    this.#logger.info({ url: this.url }, reach);
  }

  stats(): ServerStats {
    const connections = [...this.#connections];
    return {
      sockets: connections.length,
      streams: connections.reduce((sum, connection) => sum + connection.streamCount, this.#runs.count),
      unsentBytes: connections.reduce((sum, connection) => sum + connection.unsentBytes, 0),
      ...this.#streams.stats(),
    };
  }

  replaceKeys(keys: readonly ApiKey[]): void {
    if (this.#keys === undefined)
      throw new StetError('STET_ERR_UNSUPPORTED', 'keys: the server was created without keys; start it with them');
    const revoked = this.#keys.replace(keys);
    for (const principal of revoked) {
      this.#tickets.revoke(principal);
      this.#router.revoke(principal);
      for (const connection of this.#connections) if (connection.principal === principal) connection.revoke();
      this.#streams.revoke(principal);
    }
    this.#logger.info({ keys: keys.length, revoked: revoked.map(({ name }) => name) }, 'keys replaced');
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
    this.#streams.drain();
    const answered = this.#runs.drain();
    for (const connection of this.#connections) connection.drain();
    const { drainMs, closeHandshakeMs } = this.#limits;
    const deadlines = [
      setTimeout(() => {
        this.#runs.cut();
        for (const connection of this.#connections) connection.restart();
      }, drainMs),
      // Whoever does not read even the error is not waited for.
      setTimeout(() => this.#http.closeAllConnections(), drainMs + closeHandshakeMs),
    ];
    while (this.#connections.size > 0) await Promise.all([...this.#connections].map(({ finished }) => finished));
    await Promise.all([this.#streams.freed(), answered]);
    for (const deadline of deadlines) clearTimeout(deadline);
    clearInterval(this.#heartbeat);
    for (const socket of this.#webSockets.clients) socket.terminate();
    this.#http.closeAllConnections();
    await stopped;
  }

  /** A mistake of ours costs this connection and not the process. */
  #onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    try {
      this.#upgrade(request, socket, head);
    } catch (error) {
      this.#logger.error({ err: error }, 'an upgrade failed unexpectedly');
      socket.destroy();
    }
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const principal = this.#refusal(request) ?? this.#authenticator.authenticate(request);
    if (isRefusal(principal)) {
      this.#refuseUpgrade(request, socket, principal);
      return;
    }
    const place = this.#admission.admitSocket(principal);
    if (place.kind === 'refused') {
      this.#refuseUpgrade(request, socket, admissionError(place));
      return;
    }
    // Whatever becomes of the handshake and the socket, this is its end.
    socket.once('close', () => place.release());
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => this.#onSocket(webSocket, principal));
  }

  #refuseUpgrade(request: IncomingMessage, socket: Duplex, refusal: JsonResponse): void {
    const { status } = refusal;
    const requestId = crypto.randomUUID();
    refuseUpgrade(socket, { ...refusal, headers: { ...refusal.headers, 'X-Request-Id': requestId } });
    const route = pathOf(request) === STREAM_PATH ? { route: STREAM_PATH, access: 'keyed' as const } : {};
    this.#onAnswered({ requestId, ...route, method: 'GET', status, elapsedMs: 0 });
  }

  /** What whoever watches the server asks all the time is only counted. */
  #onAnswered(answered: AnsweredRequest): void {
    this.#metrics?.answered(answered);
    const { access, elapsedMs, ...fields } = answered;
    if (access === 'keyed' && fields.route !== METRICS_PATH)
      this.#logger.info({ ...fields, ms: Math.round(elapsedMs) }, 'request answered');
  }

  #refusal(request: IncomingMessage): JsonResponse | undefined {
    const unavailable = (code: StetErrorCode, message: string) =>
      httpError(503, code, message, retryAfter(UNAVAILABLE_RETRY_MS));
    if (pathOf(request) !== STREAM_PATH) return notFound(request);
    if (this.#closing !== undefined) return unavailable('STET_ERR_SHUTTING_DOWN', 'the server is going away');
    if (!this.#crossOrigin.admits(request))
      return httpError(403, 'STET_ERR_FORBIDDEN_ORIGIN', 'pages of this origin may not connect');
    if (this.#webSockets.clients.size >= this.#limits.maxSockets)
      return unavailable('STET_ERR_TOO_MANY_SOCKETS', `at most ${this.#limits.maxSockets} sockets may be open`);
    return undefined;
  }

  #onSocket(socket: WebSocket, principal: Principal): void {
    if (socket.protocol !== '' && socket.protocol !== SUBPROTOCOL) {
      socket.on('error', () => socket.terminate());
      socket.close(closeCodes.unsupportedSubprotocol, 'STET_ERR_UNSUPPORTED');
      return;
    }
    const logger = withFields(this.#logger, { socket: crypto.randomUUID() });
    const connection = new Connection(socket, {
      engine: this.#engine,
      limits: this.#limits,
      logger,
      principal,
      admission: this.#admission,
      streams: this.#streams,
    });
    this.#connections.add(connection);
    void connection.finished.then(() => this.#connections.delete(connection));
    this.#metrics?.socketOpened();
    logger.info({ key: principal.name, sockets: this.#connections.size }, 'socket opened');
  }

  #beat(): void {
    for (const connection of this.#connections) connection.beat();
  }

  /** An engine that cannot be watched says by each request whether it takes it. */
  get #health(): EngineHealth {
    return this.#engine.health ?? { state: 'ready' };
  }

  get #isReady(): boolean {
    return this.#closing === undefined && this.#health.state === 'ready';
  }

  #state(): ServerState {
    return { isClosing: this.#closing !== undefined, health: this.#health, info: this.#engine.info };
  }
}

function webSocketOptions(limits: ServerLimits) {
  return {
    noServer: true,
    clientTracking: true,
    maxPayload: protocolLimits.maxFrameBytes,
    perMessageDeflate: false,
    closeTimeout: limits.closeHandshakeMs,
    handleProtocols: chooseSubprotocol,
  };
}
