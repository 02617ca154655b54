import { StetError } from '@stet/backend';
import { isLoopbackHost } from '../hosts.js';
import type { Route } from '../http/router.js';
import type { ServerMetrics } from './server-metrics.js';

/** Who may read `/metrics`: everybody who reaches the server, whoever has a key, nobody, or `auto`. */
export type MetricsAccess = 'auto' | 'open' | 'keyed' | 'off';

export const METRICS_PATH = '/metrics';

/** `auto` is open on a host that only this machine reaches, else keyed. Throws `STET_ERR_UNSUPPORTED` for anything else. */
export function resolveMetricsAccess(access: MetricsAccess, host: string): Exclude<MetricsAccess, 'auto'> {
  if (!['auto', 'open', 'keyed', 'off'].includes(access))
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `metrics is ${JSON.stringify(access)}: there are auto, open, keyed and off`,
    );
  if (access !== 'auto') return access;
  return isLoopbackHost(host) ? 'open' : 'keyed';
}

/** `slowReaderMs`: how long a client may take to read the answer. */
export function metricsRoute(metrics: ServerMetrics, access: 'open' | 'keyed', slowReaderMs: number): Route {
  return {
    method: 'GET',
    path: METRICS_PATH,
    access,
    async handle({ response }) {
      const text = await metrics.text();
      if (response.destroyed) return undefined;
      const deadline = setTimeout(() => response.destroy(), slowReaderMs);
      response.once('close', () => clearTimeout(deadline));
      response
        .writeHead(200, { 'Content-Type': metrics.contentType, 'Content-Length': String(Buffer.byteLength(text)) })
        .end(text);
      return undefined;
    },
  };
}
