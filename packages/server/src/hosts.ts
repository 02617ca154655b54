import { isIPv4 } from 'node:net';

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
