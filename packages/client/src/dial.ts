import type { Subprotocol, TICKET_PREFIX } from '@stet/server/protocol';
import { abortable } from './abortable.js';
import { Connection, type ConnectionOptions } from './connection.js';
import { errorOfClose, StreamError } from './stream-error.js';
import type { WebSocketConstructor } from './web-socket.js';

// Written out here, with the types of the protocol's own constants: the schemas stay out of a browser's bundle.
const SUBPROTOCOL: Subprotocol = 'stet.v1';
const TICKET: typeof TICKET_PREFIX = 'stet.ticket.';

/** How the client shows who it is: a key as a header, a ticket among the subprotocols. */
export type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'ticket'; readonly ask: (options: { readonly signal: AbortSignal }) => Promise<string> };

export interface DialOptions extends ConnectionOptions {
  readonly url: string;
  readonly WebSocket: WebSocketConstructor;
  readonly credential: Credential;
  readonly connectTimeoutMs: number;
}

/** Makes one attempt. Rejects with a `StreamError`, or with the reason of `signal`. */
export async function dial(options: DialOptions, signal: AbortSignal): Promise<Connection> {
  const { url, connectTimeoutMs } = options;
  const limit = new AbortController();
  const onAbort = () => limit.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort);
  const timer = setTimeout(
    () => limit.abort(unreachable(url, `no answer within ${connectTimeoutMs} ms`)),
    connectTimeoutMs,
  );
  try {
    const protocols = await protocolsOf(options, limit.signal);
    return await openSocket(options, protocols, limit.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

/** A ticket works once, so each attempt asks for its own. */
async function protocolsOf({ url, credential }: DialOptions, signal: AbortSignal): Promise<string | string[]> {
  signal.throwIfAborted();
  if (credential.kind !== 'ticket') return SUBPROTOCOL;
  try {
    return [SUBPROTOCOL, TICKET + (await abortable(credential.ask({ signal }), signal))];
  } catch (cause) {
    signal.throwIfAborted();
    throw unreachable(url, 'no ticket was given', { cause });
  }
}

function openSocket(options: DialOptions, protocols: string | string[], signal: AbortSignal): Promise<Connection> {
  const { url, credential, WebSocket } = options;
  return new Promise((resolve, reject) => {
    const socket =
      credential.kind === 'key'
        ? new WebSocket(url, protocols, { headers: { Authorization: `Bearer ${credential.key}` } })
        : new WebSocket(url, protocols);
    const fail = (error: unknown) => {
      signal.removeEventListener('abort', onAbort);
      reject(error);
    };
    const onAbort = () => {
      fail(signal.reason);
      socket.close();
    };
    signal.addEventListener('abort', onAbort);
    socket.addEventListener('error', ({ message }) => fail(errorOfRefusal(options, message)));
    socket.addEventListener('close', ({ code, reason }) => fail(errorOfClose(code, reason)));
    socket.addEventListener('open', () => {
      signal.removeEventListener('abort', onAbort);
      // Here and not where it is awaited: the first frame may come in the same turn.
      if (!signal.aborted) resolve(new Connection(socket, options));
    });
  }).catch((cause: unknown) => {
    if (cause instanceof StreamError || cause === signal.reason) throw cause;
    throw new StreamError('STET_ERR_UNSUPPORTED', `${url}: the WebSocket could not be made`, {
      retryable: false,
      cause,
    });
  }) as Promise<Connection>;
}

/** Only `ws` tells the status with which an upgrade was refused. */
function errorOfRefusal({ url, credential }: DialOptions, message: string | undefined): StreamError {
  const status = /^Unexpected server response: (\d+)$/.exec(message ?? '')?.[1];
  const answer = `${url}: the server answered ${status}`;
  switch (status) {
    case '401':
      // A ticket may have come from a server that was restarted since; the next attempt has a new one.
      return new StreamError('STET_ERR_UNAUTHORIZED', answer, { retryable: credential.kind === 'ticket' });
    case '403':
      return new StreamError('STET_ERR_FORBIDDEN_ORIGIN', answer, { retryable: false });
    case '404':
      return new StreamError('STET_ERR_NOT_FOUND', answer, { retryable: false });
    case '429':
      return new StreamError('STET_ERR_TOO_MANY_SOCKETS', answer, { retryable: true });
    default:
      return unreachable(url, message || 'the server cannot be reached or refused');
  }
}

function unreachable(url: string, why: string, options?: { cause: unknown }): StreamError {
  return new StreamError('STET_ERR_CONNECTION', `${url}: ${why}`, { retryable: true, ...options });
}
