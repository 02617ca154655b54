import type { StetErrorCode } from '@stet/backend';
import { retryAfter } from '../http/headers.js';
import { httpError, type JsonResponse } from '../http/responses.js';
import type { KeyLimits, Principal } from './principal.js';
import { TokenBucket } from './token-bucket.js';

/** A place that is taken until `release()`, which may be called more than once. */
export interface Admitted {
  readonly kind: 'admitted';
  release(): void;
}

/** Why there is no place: an error frame's code and message, or {@link admissionError} over HTTP. */
export interface NotAdmitted {
  readonly kind: 'refused';
  readonly code: StetErrorCode;
  readonly message: string;
  /** When to ask again, in milliseconds; absent if it would never be granted. */
  readonly retryAfterMs?: number;
}

/** Nobody knows when a stream or a socket ends; a client should look again soon, but not at once. */
const PLACE_RETRY_MS = 1_000;

interface Usage {
  sockets: number;
  streams: number;
  bucket: TokenBucket | undefined;
}

/** Keeps every principal within its {@link KeyLimits}, over all its sockets and requests together. */
export class Admission {
  readonly #usage = new WeakMap<Principal, Usage>();

  /** `nowMs` is a clock that never goes back. */
  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** A place for one more WebSocket. */
  admitSocket(principal: Principal): Admitted | NotAdmitted {
    const { maxSockets } = principal.limits;
    const usage = this.#of(principal);
    if (maxSockets !== undefined && usage.sockets >= maxSockets)
      return refused('STET_ERR_TOO_MANY_SOCKETS', `this key may have ${maxSockets} sockets open`, PLACE_RETRY_MS);
    usage.sockets++;
    return admitted(() => usage.sockets--);
  }

  /**
   * A place for one request that runs as `streamCount` sequences (`n` of OpenAI's API); it counts once against
   * `requestsPerMinute`, and not at all when it is refused for the streams that run already.
   */
  admitStream(principal: Principal, streamCount = 1): Admitted | NotAdmitted {
    const usage = this.#of(principal);
    const refusal = this.#noStreams(principal.limits, usage, streamCount) ?? this.#tooSoon(principal.limits, usage);
    if (refusal !== undefined) return refusal;
    usage.streams += streamCount;
    return admitted(() => {
      usage.streams -= streamCount;
    });
  }

  /** One request that runs no stream, such as one for a ticket. */
  admitRequest(principal: Principal): NotAdmitted | undefined {
    return this.#tooSoon(principal.limits, this.#of(principal));
  }

  #noStreams({ maxStreams }: KeyLimits, usage: Usage, streamCount: number): NotAdmitted | undefined {
    if (maxStreams === undefined || usage.streams + streamCount <= maxStreams) return undefined;
    const allowed = `this key may run ${maxStreams} requests at once`;
    if (streamCount > maxStreams) return refused('STET_ERR_BAD_REQUEST', `${allowed}, not ${streamCount}`);
    return refused('STET_ERR_RATE_LIMITED', allowed, PLACE_RETRY_MS);
  }

  #tooSoon({ requestsPerMinute }: KeyLimits, usage: Usage): NotAdmitted | undefined {
    if (requestsPerMinute === undefined) {
      usage.bucket = undefined;
      return undefined;
    }
    usage.bucket ??= new TokenBucket(requestsPerMinute, this.nowMs());
    const waitMs = usage.bucket.take(requestsPerMinute, this.nowMs());
    if (waitMs === 0) return undefined;
    return refused('STET_ERR_RATE_LIMITED', `this key may send ${requestsPerMinute} requests a minute`, waitMs);
  }

  #of(principal: Principal): Usage {
    const known = this.#usage.get(principal);
    if (known !== undefined) return known;
    const usage: Usage = { sockets: 0, streams: 0, bucket: undefined };
    this.#usage.set(principal, usage);
    return usage;
  }
}

/** 429 with `Retry-After` and `retry-after-ms`, or 400 for what would never be granted. */
export function admissionError({ code, message, retryAfterMs }: NotAdmitted): JsonResponse {
  return retryAfterMs === undefined
    ? httpError(400, code, message)
    : httpError(429, code, message, retryAfter(retryAfterMs));
}

function admitted(release: () => void): Admitted {
  let isTaken = true;
  return {
    kind: 'admitted',
    release() {
      if (!isTaken) return;
      isTaken = false;
      release();
    },
  };
}

function refused(code: StetErrorCode, message: string, retryAfterMs?: number): NotAdmitted {
  return { kind: 'refused', code, message, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
