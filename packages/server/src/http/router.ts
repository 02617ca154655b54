import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Authenticator, isRefusal, type Principal } from '../auth/principal.js';
import type { Logger } from '../logger.js';
import { httpError, type JsonResponse, notFound, pathOf, sendJson } from './responses.js';

/** One HTTP request on its way through the server. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** In the answer's `X-Request-Id` and in every line of the log about this request. */
  readonly requestId: string;
  readonly principal: Principal;
  /** Aborted when the client is gone before the answer ended. */
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

export interface RouterOptions {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly logger: Logger;
}

/** Answers every request that is no upgrade, exactly once. */
export class Router {
  constructor(private readonly options: RouterOptions) {}

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = crypto.randomUUID();
    response.setHeader('X-Request-Id', requestId);
    const gone = new AbortController();
    response.on('close', () => {
      if (!response.writableFinished) gone.abort();
    });
    try {
      const answer = await this.#route(request, response, requestId, gone.signal);
      if (answer) sendJson(response, answer);
    } catch (error) {
      this.options.logger.error({ requestId, err: error }, 'a request failed unexpectedly');
      if (!response.headersSent)
        sendJson(response, httpError(500, 'STET_ERR_INTERNAL', `request ${requestId} failed unexpectedly`));
      else response.destroy();
    } finally {
      // What the handler did not read of the body must not hold the connection.
      request.resume();
    }
  }

  async #route(
    request: IncomingMessage,
    response: ServerResponse,
    requestId: string,
    signal: AbortSignal,
  ): Promise<JsonResponse | undefined> {
    const path = pathOf(request);
    const routes = this.options.routes.filter((route) => matches(route.path, path));
    if (routes.length === 0) return notFound(request);
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    const route = routes.find((candidate) => candidate.method === method);
    if (!route) {
      const allow = routes.flatMap((one) => (one.method === 'GET' ? ['GET', 'HEAD'] : [one.method])).join(', ');
      return httpError(405, 'STET_ERR_METHOD_NOT_ALLOWED', `${request.method} is not allowed here`, { Allow: allow });
    }
    const principal = this.options.authenticator.authenticate(request);
    if (isRefusal(principal)) {
      if (route.access === 'keyed') return principal;
      return route.handle({ request, response, requestId, principal: nobody, signal });
    }
    return route.handle({ request, response, requestId, principal, signal });
  }
}

/** Who asks an open route without a key. */
const nobody: Principal = { name: 'nobody', limits: {} };

function matches(pattern: string, path: string): boolean {
  return pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
}
