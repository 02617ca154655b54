import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Authenticator, isRefusal, type Principal } from '../auth/principal.js';
import type { Logger } from '../logger.js';
import type { CrossOrigin } from './cors.js';
import { securityHeaders } from './headers.js';
import type { Pages } from './pages.js';
import { httpError, type JsonResponse, notFound, pathOf, sendJson } from './responses.js';

/** One HTTP request on its way through the server. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** In the answer's `X-Request-Id` and in every line of the log about this request. */
  readonly requestId: string;
  readonly principal: Principal;
  /** Aborted when the client is gone before the answer ended, and when its key is revoked. */
  readonly signal: AbortSignal;
}

export interface Route {
  readonly method: 'GET' | 'POST';
  /** A path, or with a trailing `*` every path that begins so. */
  readonly path: string;
  /** `open` routes need no key. */
  readonly access: 'open' | 'keyed';
  /** A body to send as JSON, or undefined where the handler has answered by itself. What it throws becomes a 500. */
  handle(exchange: HttpExchange): JsonResponse | undefined | Promise<JsonResponse | undefined>;
}

/** A request whose answer is sent, or was given up. */
export interface AnsweredRequest {
  readonly requestId: string;
  /** Of whoever asked, if the answer was theirs alone. */
  readonly key?: string;
  /** The route's path as it was declared; absent where there is none. */
  readonly route?: string;
  readonly access?: Route['access'];
  readonly method: string;
  /** 499 if the client was gone before there was any. */
  readonly status: number;
  readonly elapsedMs: number;
}

/** Of a client that is gone, as proxies log it. */
const STATUS_GONE = 499;

export interface RouterOptions {
  readonly routes: readonly Route[];
  /** Answer where no route does. */
  readonly pages?: Pages;
  readonly authenticator: Authenticator;
  readonly crossOrigin: CrossOrigin;
  readonly logger: Logger;
  /** How long a client may take to read a JSON answer. */
  readonly slowReaderMs: number;
  onAnswered(answered: AnsweredRequest): void;
}

/** Answers every request that is no upgrade, exactly once. */
export class Router {
  /** Requests with a key that are not answered to the end yet. */
  readonly #open = new Map<ServerResponse, Principal>();
  readonly #routeOf = new WeakMap<ServerResponse, Route>();

  constructor(private readonly options: RouterOptions) {}

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = crypto.randomUUID();
    setHeaders(response, { ...securityHeaders, 'X-Request-Id': requestId });
    const gone = new AbortController();
    const beganMs = performance.now();
    response.on('close', () => {
      this.#report(request, response, requestId, performance.now() - beganMs);
      this.#open.delete(response);
      if (!response.writableFinished) gone.abort();
    });
    try {
      const answer = await this.#route({ request, response, requestId, signal: gone.signal });
      if (answer) this.#send(response, answer);
    } catch (error) {
      this.options.logger.error({ requestId, err: error }, 'a request failed unexpectedly');
      if (!response.headersSent)
        this.#send(response, httpError(500, 'STET_ERR_INTERNAL', `request ${requestId} failed unexpectedly`));
      else response.destroy();
    } finally {
      // What the handler did not read of the body must not hold the connection.
      request.resume();
    }
  }

  /** Cuts off what is being answered to somebody whose key is no more. */
  revoke(principal: Principal): void {
    for (const [response, owner] of this.#open) {
      if (owner === principal) response.destroy();
    }
  }

  async #route(arrival: Omit<HttpExchange, 'principal'>): Promise<JsonResponse | undefined> {
    const { request, response } = arrival;
    const { crossOrigin, authenticator } = this.options;
    if (!crossOrigin.admits(request))
      return httpError(403, 'STET_ERR_FORBIDDEN_ORIGIN', 'pages of this origin may not ask');
    setHeaders(response, crossOrigin.headers(request));
    const path = pathOf(request);
    const routes = await this.#routesAt(path);
    if (routes.length === 0) return notFound(request);
    this.#routeOf.set(response, routes[0]!);
    if (request.method === 'OPTIONS') {
      const methods = methodsOf(routes);
      response.writeHead(204, { Allow: methods, ...crossOrigin.preflightHeaders(methods) }).end();
      return undefined;
    }
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    const route = routes.find((candidate) => candidate.method === method);
    if (!route)
      return httpError(405, 'STET_ERR_METHOD_NOT_ALLOWED', `${request.method} is not allowed here`, {
        Allow: methodsOf(routes),
      });
    const principal = authenticator.authenticate(request);
    if (isRefusal(principal))
      return route.access === 'keyed' ? principal : route.handle({ ...arrival, principal: nobody });
    if (!response.destroyed) this.#open.set(response, principal);
    return route.handle({ ...arrival, principal });
  }

  async #routesAt(path: string): Promise<Route[]> {
    const routes = this.options.routes.filter((route) => matches(route.path, path));
    if (routes.length > 0) return routes;
    const page = await this.options.pages?.find(path);
    return page === undefined ? [] : [page];
  }

  #report({ method = '' }: IncomingMessage, response: ServerResponse, requestId: string, elapsedMs: number): void {
    const route = this.#routeOf.get(response);
    const key = this.#open.get(response)?.name;
    this.options.onAnswered({
      requestId,
      ...(key !== undefined && { key }),
      ...(route && { route: route.path, access: route.access }),
      method,
      status: response.headersSent ? response.statusCode : STATUS_GONE,
      elapsedMs,
    });
  }

  /** An answer that nobody reads is given up; streamed answers have deadlines of their own. */
  #send(response: ServerResponse, answer: JsonResponse): void {
    sendJson(response, answer);
    if (response.writableFinished) return;
    const deadline = setTimeout(() => response.destroy(), this.options.slowReaderMs);
    response.once('finish', () => clearTimeout(deadline)).once('close', () => clearTimeout(deadline));
  }
}

/** Who asks an open route without a key. */
const nobody: Principal = { name: 'nobody', limits: {} };

function matches(pattern: string, path: string): boolean {
  return pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
}

function methodsOf(routes: readonly Route[]): string {
  const methods = routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  return [...methods, 'OPTIONS'].join(', ');
}

function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
}
