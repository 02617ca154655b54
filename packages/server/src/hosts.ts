import { isIPv4 } from 'node:net';
import { StetError } from '@stet/backend';

/** Whether a host name or address can only mean this machine. */
export function isLoopbackHost(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true;
  return isIPv4(host) && host.startsWith('127.');
}

/**
 * Whether a page of `origin` may use the server. Clients that are no browsers send no origin. Without a list, only pages
 * of this machine may: the port is open to every page that a browser on this machine shows.
 */
export function isOriginAllowed(origin: string | undefined, allowed: readonly string[] | undefined): boolean {
  if (origin === undefined) return true;
  if (allowed !== undefined) return allowed.includes(origin);
  return URL.canParse(origin) && isLoopbackHost(new URL(origin).hostname);
}

/** Throws `STET_ERR_UNSUPPORTED` for an origin that no browser ever sends, such as one with a path or a trailing slash. */
export function checkOrigins(origins: readonly string[]): void {
  for (const origin of origins) {
    if (origin === 'null' || isOrigin(origin)) continue;
    const example = 'https://example.org or http://localhost:3000';
    throw new StetError('STET_ERR_UNSUPPORTED', `allowed origin "${origin}": it must look like ${example}`);
  }
}

function isOrigin(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#\s@*]+$/.test(text) || !URL.canParse(text)) return false;
  const { origin } = new URL(text);
  // Schemes that are no web's, such as those of browser extensions, have no origin of their own to a URL.
  return origin === text || origin === 'null';
}
