import type { Logger } from '@stet/server';
import { onInterrupt } from '../interrupt.js';
import { type EngineChoice, openEngine } from '../open-engine.js';
import { readServerKeys, reloadKeysOnHangup } from '../server-keys.js';

export interface ServeOptions extends EngineChoice {
  readonly host: string;
  readonly port: number;
  /** MiB. */
  readonly kvMemory?: number;
  readonly maxRunning?: number;
  readonly maxWaiting?: number;
  readonly allowOrigin?: readonly string[];
  /** A file of keys. */
  readonly keys?: string;
  readonly verbose?: boolean;
}

/** `stet serve`: until ctrl-C or SIGTERM, which drain; the second one ends at once. */
export async function serve(options: ServeOptions): Promise<void> {
  const { host, port, kvMemory, maxRunning, maxWaiting, allowOrigin, keys: file } = options;
  const { STET_API_KEY: apiKey } = process.env;
  const sources = { ...(file !== undefined && { file }), ...(apiKey !== undefined && { apiKey }) };
  const interrupt = onInterrupt();
  try {
    const { createServer } = await import('@stet/server');
    const keys = await readServerKeys(sources);
    await using engine = await openEngine(options, {
      ...(kvMemory !== undefined && { kv: { memoryBytes: kvMemory * 2 ** 20 } }),
      limits: { ...(maxRunning !== undefined && { maxRunning }), ...(maxWaiting !== undefined && { maxWaiting }) },
      signal: interrupt.signal,
    });
    await using server = await createServer({
      engine,
      host,
      port,
      ...(keys && { keys }),
      ...(allowOrigin && { allowedOrigins: allowOrigin }),
      ...(options.verbose && { logger: stderrLogger }),
    });
    const { model, backend, device, memory } = engine.info;
    console.error(`${model} on ${backend} (${device}), ${mebibytes(memory.kvBytes)} MiB of K/V`);
    console.log(`listening on ${server.url} (stream: ${server.url.replace(/^http/, 'ws')}/v1/stream)`);
    const access = keys ? `keys: ${keys.length}, read again at SIGHUP` : 'loopback only: there are no API keys';
    console.error(`${access}. ctrl-C drains and stops, twice stops at once.`);
    const hangup = keys && reloadKeysOnHangup(server, sources, (line) => console.error(line));
    await fired(interrupt.signal);
    hangup?.dispose();
    console.error('draining');
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
  } finally {
    interrupt.dispose();
  }
}

const stderrLogger: Logger = { info: log('info'), warn: log('warn'), error: log('error') };

function log(level: string): Logger['info'] {
  return (fields, message) =>
    console.error(JSON.stringify({ time: new Date().toISOString(), level, message, ...fields }));
}

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}

function fired(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
