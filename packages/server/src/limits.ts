import { StetError } from '@stet/backend';

/** Every bound of the server, with its default. What a frame may hold is bounded by `protocolLimits`. */
export interface ServerLimits {
  readonly maxSockets: number;
  readonly maxStreamsPerSocket: number;
  /** Unsent bytes of a socket above which none of its streams is read and no frame of it is taken. */
  readonly highWaterBytes: number;
  /** Unsent bytes at which that ends. */
  readonly lowWaterBytes: number;
  /** How long a socket may stay above before it is closed with 1013. */
  readonly slowReaderMs: number;
  /** Time between two heartbeat pings; a socket that stays silent from one to the next is terminated. */
  readonly heartbeatMs: number;
  /** How long `close()` lets running streams finish. */
  readonly drainMs: number;
  /** How long the other end may take to answer a close frame before its connection is destroyed. */
  readonly closeHandshakeMs: number;
}

export const defaultServerLimits: ServerLimits = {
  maxSockets: 1024,
  maxStreamsPerSocket: 64,
  highWaterBytes: 256 * 1024,
  lowWaterBytes: 64 * 1024,
  slowReaderMs: 10_000,
  heartbeatMs: 30_000,
  drainMs: 10_000,
  closeHandshakeMs: 2_000,
};

/** Fills in the defaults. Throws `STET_ERR_UNSUPPORTED` for an unknown limit and for one out of range. */
export function resolveServerLimits(limits: Partial<ServerLimits> = {}): ServerLimits {
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(defaultServerLimits, name)) throw unsupported(`unknown server limit "${name}"`);
    if (!Number.isSafeInteger(value) || value < smallest(name))
      throw unsupported(`server limit ${name} must be a whole number from ${smallest(name)}, not ${value}`);
  }
  const resolved = { ...defaultServerLimits, ...limits };
  if (resolved.lowWaterBytes >= resolved.highWaterBytes)
    throw unsupported(
      `lowWaterBytes ${resolved.lowWaterBytes} must be under highWaterBytes ${resolved.highWaterBytes}`,
    );
  return resolved;
}

/** No drain and a low mark of nothing are sensible; no sockets or no time to answer are not. */
function smallest(name: string): number {
  return name === 'drainMs' || name === 'lowWaterBytes' ? 0 : 1;
}

function unsupported(message: string): StetError {
  return new StetError('STET_ERR_UNSUPPORTED', message);
}
