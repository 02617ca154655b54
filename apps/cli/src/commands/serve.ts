import { isStetError } from '@stet/backend';
import { onInterrupt } from '../interrupt.js';
import { createLog } from '../log.js';
import { openEngine } from '../open-engine.js';
import { playgroundFolder } from '../playground-folder.js';
import { EXIT_FAILED } from '../report-error.js';
import type { ServeConfig } from '../serve-config/serve-config.js';
import { chosenSettings, type Setting } from '../serve-config/settings.js';
import { readServerKeys, reloadKeysOnHangup } from '../server-keys.js';

type Log = ReturnType<typeof createLog>;

/** `stet serve`: until ctrl-C or SIGTERM, which drain; the second one ends at once. */
export async function serve(config: ServeConfig, settings: readonly Setting[]): Promise<void> {
  const log = createLog(config.logLevel, config.logFormat);
  log.info(chosenSettings(settings), 'options; all others have their defaults (--print-config)');
  const interrupt = onInterrupt();
  try {
    await run(config, log, interrupt.signal);
  } catch (error) {
    if (interrupt.signal.aborted) return;
    // Whoever reads JSON gets nothing else.
    if (config.logFormat !== 'json') throw error;
    log.error({ err: error, ...(isStetError(error) && { hint: error.hint }) }, 'the server failed');
    process.exitCode = EXIT_FAILED;
  } finally {
    interrupt.dispose();
  }
}

async function run(config: ServeConfig, log: Log, signal: AbortSignal): Promise<void> {
  const { host, port, allowedOrigins, metrics, serverLimits, keys: file } = config;
  // Before the model is loaded, which takes longer than to say what is wrong.
  const pages = config.playground ? playgroundFolder() : undefined;
  // As everywhere, a variable that is empty is not set.
  const apiKey = process.env.STET_API_KEY || undefined;
  const sources = { ...(file !== undefined && { file }), ...(apiKey !== undefined && { apiKey }) };
  const { createServer } = await import('@stet/server');
  const keys = await readServerKeys(sources);
  await using engine = await openEngine(config.choice, {
    kv: config.kv,
    prefixCache: config.prefixCache,
    onDeviceLost: config.onDeviceLost,
    limits: config.engineLimits,
    signal,
  });
  await using server = await createServer({
    ...{ engine, host, port, metrics, limits: serverLimits, logger: log },
    ...(keys && { keys }),
    ...(allowedOrigins && { allowedOrigins }),
    ...(pages !== undefined && { pages }),
  });
  const { model, backend, device, memory } = engine.info;
  log.info(`${model} on ${backend} (${device}), ${mebibytes(memory.kvBytes)} MiB of K/V`);
  // In JSON the server has logged it, and whoever collects both outputs gets nothing else.
  if (config.logFormat === 'pretty') {
    console.log(`listening on ${server.url} (stream: ${server.url.replace(/^http/, 'ws')}/v1/stream)`);
    if (pages !== undefined) console.log(`playground: ${server.url}/`);
  } else if (pages !== undefined) log.info({ url: `${server.url}/` }, 'playground');
  const access = keys ? `keys: ${keys.length}, read again at SIGHUP` : 'loopback only: there are no API keys';
  log.info(`${access}. ctrl-C drains and stops, twice stops at once.`);
  const hangup = keys && reloadKeysOnHangup(server, sources, (line, level) => log[level](line));
  await fired(signal);
  hangup?.dispose();
  log.info('draining');
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
