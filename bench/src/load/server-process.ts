import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { createCpuBackend } from '@stet/backend-cpu';
import { createEngine, type StetEngine } from '@stet/engine';
import { dvr } from '@stet/scheduler';
import { createServer, type StetServer } from '@stet/server';
import { openTales } from '../model.js';
import { mismatching } from './mismatching-backend.js';
import type { Listening, ServerAnswer, ServerCommand, ServerSample, ServerSetup } from './server-messages.js';

/** The program of a server under load: it is told what to do by the process that started it, and ends with it. */

const LAG_RESOLUTION_MS = 10;

let running: { readonly engine: StetEngine; readonly server: StetServer } | undefined;
const delays = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });

process.on('message', (command: ServerCommand) => void obey(command).then((answer) => process.send!(answer)));
process.on('disconnect', () => void stop());

async function obey(command: ServerCommand): Promise<ServerAnswer> {
  try {
    return command.kind === 'start' ? await start(command.setup) : { kind: 'sample', sample: sample(command.collect) };
  } catch (error) {
    return { kind: 'failed', message: String(error) };
  }
}

async function start({ threads, limits = {}, kvBlocks, mismatchRate = 0 }: ServerSetup): Promise<Listening> {
  const cpu = createCpuBackend({ threads });
  const engine = await createEngine({
    model: openTales().then(({ model }) => model),
    backend: mismatchRate > 0 ? mismatching(cpu, mismatchRate) : cpu,
    policy: mismatchRate > 0 ? dvr() : 'auto',
    ...(kvBlocks !== undefined && { kv: { blockCount: kvBlocks } }),
  });
  const server = await createServer({ engine, port: 0, limits });
  running = { engine, server };
  delays.enable();
  const { model, fingerprint, device } = engine.info;
  return { kind: 'listening', url: server.url, model, fingerprint, device };
}

function sample(collect: boolean): ServerSample {
  if (!running) throw new Error('the server was not started');
  if (collect) globalThis.gc!();
  const { rss, heapUsed, external } = process.memoryUsage();
  const lagMs = lagOf(delays);
  delays.reset();
  const { engine, server } = running;
  return { rssBytes: rss, heapBytes: heapUsed + external, lagMs, server: server.stats(), engine: engine.stats() };
}

/** The histogram holds the time from one tick to the next, which is the resolution where nothing is late. */
function lagOf({ count, max }: IntervalHistogram): number {
  return count === 0 ? 0 : Math.max(0, max / 1e6 - LAG_RESOLUTION_MS);
}

async function stop(): Promise<void> {
  delays.disable();
  await running?.server.close();
  await running?.engine.close();
}
