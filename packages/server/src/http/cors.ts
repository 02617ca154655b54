import type { IncomingMessage } from 'node:http';
import { isOriginAllowed } from '../hosts.js';

/** How long a browser may keep the answer to a preflight, in seconds. */
const PREFLIGHT_MAX_AGE_S = 600;

/** What a page may read of an answer besides the body. */
const EXPOSED_HEADERS = 'X-Request-Id, Retry-After, retry-after-ms, x-should-retry';

/**
 * Which pages may read answers: those that may connect, named exactly and without credentials. A key goes in a header of
 * its own, so there is nothing ambient that a page could borrow.
 */
export class CrossOrigin {
  constructor(private readonly allowedOrigins: readonly string[] | undefined) {}

  /** Whether the request is from no page, or from one that may ask. */
  admits(request: IncomingMessage): boolean {
    return isOriginAllowed(request.headers.origin, this.allowedOrigins);
  }

  /** For the answer to a request that is admitted. */
  headers({ headers: { origin } }: IncomingMessage): Record<string, string> {
    if (origin === undefined) return { Vary: 'Origin' };
    return {
      Vary: 'Origin',
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Expose-Headers': EXPOSED_HEADERS,
    };
  }

  /** Also for the answer to `OPTIONS`, before a page's request with a key or a JSON body. `*` names no Authorization. */
  preflightHeaders(methods: string): Record<string, string> {
    return {
      'Access-Control-Allow-Methods': methods,
      'Access-Control-Allow-Headers': 'Authorization, Content-Type, *',
      'Access-Control-Max-Age': String(PREFLIGHT_MAX_AGE_S),
    };
  }
}
