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
  /** How long a stream without a socket is kept, so that it can be resumed; 0 keeps none. */
  readonly resumeWindowMs: number;
  /** Commits that are kept of one stream, in bytes of their JSON. */
  readonly resumeBufferBytes: number;
  /** Commits that are kept of all streams. */
  readonly resumeTotalBytes: number;
  /** Streams without a socket that are kept. */
  readonly maxDetachedStreams: number;
  /** Of these, streams of one key. */
  readonly maxDetachedStreamsPerKey: number;
  /** Time between two heartbeat pings; a socket that stays silent from one to the next is terminated. */
  readonly heartbeatMs: number;
  /** How long `close()` lets running streams finish. */
  readonly drainMs: number;
  /** How long the other end may take to answer a close frame, or to read what was cut off, before its connection is destroyed. */
  readonly closeHandshakeMs: number;
  /** Connections of every kind; one more is dropped unanswered. */
  readonly maxConnections: number;
  /** All headers of a request together. */
  readonly maxHeaderBytes: number;
  /** How long the headers of a request may take to arrive. */
  readonly headersTimeoutMs: number;
  /** How long a whole request may take to arrive. */
  readonly requestTimeoutMs: number;
  /** The body of an HTTP request. */
  readonly maxBodyBytes: number;
  /** Time without an event after which a stream of server-sent events says that it lives. */
  readonly ssePingMs: number;
  /** How long an idle HTTP connection is kept. */
  readonly keepAliveMs: number;
  /** How long a ticket can be used. */
  readonly ticketMs: number;
  /** Tickets of one key that are neither used nor expired. */
  readonly maxTicketsPerKey: number;
}

export const defaultServerLimits: ServerLimits = {
  maxSockets: 1024,
  maxStreamsPerSocket: 64,
  highWaterBytes: 256 * 1024,
  lowWaterBytes: 64 * 1024,
  slowReaderMs: 10_000,
  resumeWindowMs: 10_000,
  resumeBufferBytes: 256 * 1024,
  resumeTotalBytes: 64 * 1024 * 1024,
  maxDetachedStreams: 1024,
  maxDetachedStreamsPerKey: 256,
  heartbeatMs: 30_000,
  drainMs: 10_000,
  closeHandshakeMs: 2_000,
  maxConnections: 4096,
  maxHeaderBytes: 16 * 1024,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 60_000,
  maxBodyBytes: 1024 * 1024,
  ssePingMs: 15_000,
  keepAliveMs: 30_000,
  ticketMs: 60_000,
  maxTicketsPerKey: 256,
};

/** Fills in the defaults. Throws `STET_ERR_UNSUPPORTED` for an unknown limit and for one out of range. */
export function resolveServerLimits(limits: Partial<ServerLimits> = {}): ServerLimits {
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(defaultServerLimits, name)) throw unsupported(`unknown server limit "${name}"`);
    if (!Number.isSafeInteger(value) || value < smallest(name))
      throw unsupported(`server limit ${name} must be a whole number from ${smallest(name)}, not ${value}`);
  }
  const resolved = { ...defaultServerLimits, ...limits };
  checkBelow(resolved, 'lowWaterBytes', 'highWaterBytes');
  // A connection is left for HTTP when every socket is open.
  checkBelow(resolved, 'maxSockets', 'maxConnections');
  checkBelow(resolved, 'headersTimeoutMs', 'requestTimeoutMs');
  return resolved;
}

function checkBelow(limits: ServerLimits, lower: keyof ServerLimits, upper: keyof ServerLimits): void {
  if (limits[lower] >= limits[upper])
    throw unsupported(`${lower} ${limits[lower]} must be under ${upper} ${limits[upper]}`);
}

/** No drain, no resuming and a low mark of nothing are sensible; no sockets or no time to answer are not. */
export function smallest(name: string): number {
  return ['drainMs', 'lowWaterBytes', 'resumeWindowMs'].includes(name) ? 0 : 1;
}

function unsupported(message: string): StetError {
  return new StetError('STET_ERR_UNSUPPORTED', message);
}
