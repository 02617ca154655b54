import type { IncomingMessage } from 'node:http';
import type { JsonResponse } from '../http/responses.js';

/** Bounds of one key over all of its sockets and requests; absent means none of its own. */
export interface KeyLimits {
  readonly maxSockets?: number;
  /** Requests that run or wait at once, over WebSocket and HTTP. */
  readonly maxStreams?: number;
  readonly requestsPerMinute?: number;
}

/**
 * Who asks. Streams of one principal are invisible to every other. Two requests are of the same principal exactly if
 * they carry the same object: it outlives a reload of the keys, its limits may change then, and a key that is replaced
 * under the same name is somebody else.
 */
export interface Principal {
  /** The name of the key, which logs may show; `loopback` where no keys are configured. Never the key. */
  readonly name: string;
  readonly limits: KeyLimits;
  /** Principals of one scope share the prefix cache; absent where there is one principal alone. */
  readonly cacheScope?: string;
}

/** For the engine's options. */
export function cacheScopeOf({ cacheScope }: Principal): Pick<Principal, 'cacheScope'> {
  return cacheScope === undefined ? {} : { cacheScope };
}

/** Decides who a request is from, or how to refuse it (401, 403). It never throws and never logs what it was shown. */
export interface Authenticator {
  authenticate(request: IncomingMessage): Principal | JsonResponse;
}

export function isRefusal(answer: Principal | JsonResponse): answer is JsonResponse {
  return 'status' in answer;
}

/** Everybody who can reach a server without keys, which listens on loopback alone. */
export const loopbackPrincipal: Principal = { name: 'loopback', limits: {} };

/** For a server without keys. */
export const openDoor: Authenticator = { authenticate: () => loopbackPrincipal };
