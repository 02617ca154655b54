/**
 * On every answer, whatever its type: nothing of it is to be guessed, run, framed, stored or handed to other sites.
 * A route may set another Cache-Control.
 */
export const securityHeaders: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/** When to ask again, in the header of HTTP (whole seconds) and in that of OpenAI's clients. */
export function retryAfter(milliseconds: number): Record<string, string> {
  return {
    'Retry-After': String(Math.max(1, Math.ceil(milliseconds / 1000))),
    'retry-after-ms': String(Math.max(1, Math.ceil(milliseconds))),
  };
}
