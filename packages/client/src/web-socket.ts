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

export type WebSocketConstructor = new (url: string, protocol: string) => WebSocketLike;

/** `readyState` of a socket that can send. */
export const OPEN = 1;

/** The WebSocket of the platform, or that of the package `ws` where there is none. */
export async function findWebSocket(): Promise<WebSocketConstructor> {
  const global = (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  if (global !== undefined) return global;
  try {
    // Not a literal, so that bundlers for browsers leave it alone.
    const specifier = 'ws';
    const { default: WebSocket } = (await import(/* @vite-ignore */ specifier)) as { default: WebSocketConstructor };
    return WebSocket;
  } catch (cause) {
    throw new StetError('STET_ERR_UNSUPPORTED', 'this runtime has no WebSocket; run `npm install ws`', { cause });
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
