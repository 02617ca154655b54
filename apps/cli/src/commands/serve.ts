import type { Logger } from '@stet/server';
import { onInterrupt } from '../interrupt.js';
import { type EngineChoice, openEngine } from '../open-engine.js';

export interface ServeOptions extends EngineChoice {
  readonly host: string;
  readonly port: number;
  /** MiB. */
  readonly kvMemory?: number;
  readonly maxRunning?: number;
  readonly maxWaiting?: number;
  readonly allowOrigin?: readonly string[];
  readonly verbose?: boolean;
}

/** `stet serve`: until ctrl-C or SIGTERM, which drain; the second one ends at once. */
export async function serve(options: ServeOptions): Promise<void> {
  const { host, port, kvMemory, maxRunning, maxWaiting, allowOrigin } = options;
  const interrupt = onInterrupt();
  try {
    const { createServer } = await import('@stet/server');
    await using engine = await openEngine(options, {
      ...(kvMemory !== undefined && { kv: { memoryBytes: kvMemory * 2 ** 20 } }),
      limits: { ...(maxRunning !== undefined && { maxRunning }), ...(maxWaiting !== undefined && { maxWaiting }) },
      signal: interrupt.signal,
    });
    await using server = await createServer({
      engine,
      host,
      port,
      ...(allowOrigin && { allowedOrigins: allowOrigin }),
      ...(options.verbose && { logger: stderrLogger }),
    });
    const { model, backend, device, memory } = engine.info;
    console.error(`${model} on ${backend} (${device}), ${mebibytes(memory.kvBytes)} MiB of K/V`);
    console.log(`listening on ${server.url} (stream: ${server.url.replace(/^http/, 'ws')}/v1/stream)`);
    console.error('loopback only: there are no API keys. ctrl-C drains and stops, twice stops at once.');
    await fired(interrupt.signal);
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
