import { monitorEventLoopDelay } from 'node:perf_hooks';
import { EventsClient, type LoadClient, WebSocketClient } from './load/load-client.js';
import { type LagFigures, type MemoryFigures, ServerWatch } from './load/memory.js';
import { RequestMix } from './load/requests.js';
import { ServerChild } from './load/server-child.js';
import { LoadTally, trafficKinds } from './load/tally.js';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import type { BenchResult } from './result.js';
import { rounded } from './stats.js';

const FULL = { sockets: 200, requests: 2_000 };
const QUICK = { sockets: 20, requests: 200 };
const ROUNDS = 4;
/** Every tenth client uses OpenAI's API with server-sent events; the others a WebSocket. */
const EVENTS_EVERY = 10;
/** As many as all clients need at once, and few enough that the first round has used every one: until then they are no memory. */
const BLOCKS_PER_SOCKET = 16;
/** Each round waits until what was kept for a resume is gone. */
const RESUME_WINDOW_MS = 2_000;

interface Workload {
  readonly sockets: number;
  readonly requests: number;
  readonly deterministic: number;
  readonly rounds: number;
}

/** A server under many clients: whether everything comes, complete and in order, how long it takes, and what is left of it. */
export async function measureLoad(options: BenchOptions): Promise<BenchResult> {
  const { quick, sockets, requests, deterministic = 0.2, rounds = ROUNDS, threads, url } = options;
  const size = quick ? QUICK : FULL;
  const workload = { sockets: sockets ?? size.sockets, requests: requests ?? size.requests, deterministic, rounds };
  if (url !== undefined) return measure(workload, url, await serverInfo(url), undefined);
  const { child, listening } = await ServerChild.start({
    threads,
    kvBlocks: workload.sockets * BLOCKS_PER_SOCKET,
    limits: { resumeWindowMs: RESUME_WINDOW_MS },
  });
  try {
    const watch = new ServerWatch(child);
    await watch.start();
    return await measure(workload, listening.url, listening, watch);
  } finally {
    await child.close();
  }
}

type ServerInfo = Pick<BenchResult, 'model' | 'fingerprint' | 'device'>;

async function measure(
  workload: Workload,
  url: string,
  info: ServerInfo,
  watch: ServerWatch | undefined,
): Promise<BenchResult> {
  const tally = new LoadTally();
  const clientDelays = monitorEventLoopDelay({ resolution: 10 });
  clientDelays.enable();
  let busyMs = 0;
  for (let round = 0; round < workload.rounds; round++) {
    watch?.beginRound();
    const start = performance.now();
    await runRound(workload, round, url, tally);
    busyMs += performance.now() - start;
    await watch?.endRound();
  }
  clientDelays.disable();
  const memory = watch?.memory();
  return resultOf(workload, info, tally, busyMs, {
    ...(memory && { memory }),
    ...(watch && { serverLagMs: watch.lag() }),
    // A client that is late itself takes its own time for the server's.
    clientLagMs: { p99: rounded(Math.max(0, clientDelays.percentile(99) / 1e6 - 10), 2) },
  });
}

/** A share of the requests, by clients that connect, ask one after the other, and close. */
async function runRound(
  { sockets, requests, deterministic, rounds }: Workload,
  round: number,
  url: string,
  tally: LoadTally,
): Promise<void> {
  const perRound = Math.ceil(requests / rounds);
  const mix = new RequestMix(deterministic, perRound);
  const end = Math.min(requests, perRound * (round + 1));
  let next = perRound * round;
  const clients = await Promise.all(
    Array.from({ length: sockets }, (_, index): LoadClient | Promise<LoadClient> =>
      index % EVENTS_EVERY === EVENTS_EVERY - 1 ? new EventsClient(url) : WebSocketClient.connect(url),
    ),
  );
  await Promise.all(
    clients.map(async (client) => {
      while (next < end) {
        const request = mix.request(next++);
        try {
          tally.add(request, await client.ask(request));
        } catch (error) {
          tally.addFailure(error);
        }
      }
      await client.close();
    }),
  );
}

interface Costs {
  readonly memory?: MemoryFigures;
  readonly serverLagMs?: LagFigures;
  readonly clientLagMs: object;
}

function resultOf(workload: Workload, info: ServerInfo, tally: LoadTally, busyMs: number, costs: Costs): BenchResult {
  const { sockets, requests, deterministic, rounds } = workload;
  const figures = Object.fromEntries(trafficKinds.map((kind) => [kind, tally.figures(kind)]));
  const { lost, reordered, wrong } = tally.violations;
  const of = (name: 'ttftMs' | 'gapMs') =>
    Object.fromEntries(trafficKinds.map((kind) => [kind, figures[kind]?.[name]]));
  const json = {
    errors: tally.errors,
    lost,
    reordered,
    wrong,
    failures: Object.fromEntries(tally.failures),
    requests: Object.fromEntries(trafficKinds.map((kind) => [kind, figures[kind]?.requests ?? 0])),
    tokensPerSecond: Math.round((tally.tokens * 1000) / busyMs),
    ttftMs: of('ttftMs'),
    gapMs: of('gapMs'),
    ...costs,
  };
  const rows = trafficKinds.flatMap((kind) => (figures[kind] ? [{ traffic: kind, ...figureRow(figures[kind]) }] : []));
  const failures = failuresOf(tally, costs.memory);
  return {
    ...info,
    workload:
      `${requests} requests by ${sockets} clients in ${rounds} rounds, each client one request after the other, a tenth of the clients ` +
      `over server-sent events and the others over WebSockets; ${deterministic * 100} % deterministic, the same in every round; half greedy, half at ` +
      'temperature 0.8, top-p 0.95; prompts of 40 to 400 characters, 8 to 128 tokens of output',
    rows,
    tables: [markdownTable(rows), markdownTable([costRow(json, costs.memory)])],
    json,
    ...(failures.length > 0 && { failure: failures.join('\n') }),
  };
}

function figureRow({ requests, ttftMs, gapMs }: NonNullable<ReturnType<LoadTally['figures']>>) {
  return {
    requests,
    'first token p50 ms': ttftMs.p50,
    p90: ttftMs.p90,
    p99: ttftMs.p99,
    'gap p50 ms': gapMs.p50,
    'gap p90 ms': gapMs.p90,
    'gap p99 ms': gapMs.p99,
    'largest gap ms': gapMs.max,
  };
}

function costRow(
  figures: { readonly errors: number; readonly lost: number; readonly reordered: number; readonly wrong: number } & {
    readonly tokensPerSecond: number;
    readonly serverLagMs?: LagFigures;
  },
  memory: MemoryFigures | undefined,
) {
  const { errors, lost, reordered, wrong, tokensPerSecond, serverLagMs } = figures;
  return {
    errors,
    lost,
    reordered,
    wrong,
    'tokens/s': tokensPerSecond,
    ...(memory && {
      'RSS before, peak, MiB': `${memory.before}, ${memory.peak}`,
      'RSS drained, MiB': memory.drained.join(', '),
      'heap drained, MiB': memory.drainedHeap.join(', '),
    }),
    ...(serverLagMs && { 'loop late p50, p99, max, ms': `${serverLagMs.p50}, ${serverLagMs.p99}, ${serverLagMs.max}` }),
  };
}

function failuresOf(tally: LoadTally, memory: MemoryFigures | undefined): string[] {
  const failures = Array.from(tally.failures, ([message, count]) => `${count} × ${message}`);
  if (memory?.isFlat === false) {
    const { growth, bound, heapGrowth, heapBound } = memory;
    failures.push(`memory grew by ${growth} MiB (bound ${bound}), its heap by ${heapGrowth} MiB (bound ${heapBound})`);
  }
  return failures;
}

/** Of a server that runs already. */
async function serverInfo(url: string): Promise<ServerInfo> {
  const response = await fetch(`${url}/ready`);
  if (!response.ok) throw new Error(`${url} is not ready: ${response.status}`);
  const { model, fingerprint, backend } = (await response.json()) as Record<
    'model' | 'fingerprint' | 'backend',
    string
  >;
  return { model, fingerprint, device: backend };
}
