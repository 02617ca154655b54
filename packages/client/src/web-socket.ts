import { StetError } from '@stet/backend';

/** What the client uses of a WebSocket: those of browsers, of Node 22 and of `ws` all have it. */
export interface WebSocketLike {
  readonly readyState: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: 'open', listener: () => void): void;
  /** `ws` says what went wrong; browsers do not. */
  addEventListener(type: 'error', listener: (event: { readonly message?: string }) => void): void;
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: 'close', listener: (event: { readonly code: number; readonly reason: string }) => void): void;
}

/** `options` are those of `ws`, and given only with a key; the sockets of platforms do not have them. */
export type WebSocketConstructor = new (
  url: string,
  protocols: string | string[],
  options?: { readonly headers: Readonly<Record<string, string>> },
) => WebSocketLike;

/** `readyState` of a socket that can send. */
export const OPEN = 1;

/**
 * The WebSocket to use: `chosen`, else the platform's, else that of the package `ws`. A key is sent as a header, which
 * those of platforms cannot.
 */
export async function findWebSocket(
  chosen: WebSocketConstructor | undefined,
  credential: 'key' | 'other',
): Promise<WebSocketConstructor> {
  const ofPlatform = (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  if (credential === 'other') return chosen ?? ofPlatform ?? importWs('this runtime has no WebSocket');
  if (chosen !== undefined && chosen === ofPlatform)
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      'the WebSocket of the platform cannot send a key; use a ticket, or `ws`',
    );
  return chosen ?? importWs('only the package `ws` can send a key, and a page needs a ticket instead');
}

async function importWs(why: string): Promise<WebSocketConstructor> {
  try {
    // Not a literal, so that bundlers for browsers leave it alone.
    const specifier = 'ws';
    const { default: WebSocket } = (await import(/* @vite-ignore */ specifier)) as { default: WebSocketConstructor };
    return WebSocket;
  } catch (cause) {
    throw new StetError('STET_ERR_UNSUPPORTED', `${why}; run \`npm install ws\``, { cause });
  }
}

/** The address of the stream: `http:` means `ws:`, and no path means `/v1/stream`. */
export function streamUrl(address: string | URL): string {
  const parsed = URL.canParse(address) ? new URL(address) : undefined;
  const protocol = parsed?.protocol.replace(/^http/, 'ws');
  if (parsed === undefined || (protocol !== 'ws:' && protocol !== 'wss:'))
    throw new StetError('STET_ERR_UNSUPPORTED', `${address} is not an address like ws://127.0.0.1:8642`);
  const url = new URL(parsed.href.replace(/^http/, 'ws'));
  if (url.pathname === '/') url.pathname = '/v1/stream';
  return url.href;
}
