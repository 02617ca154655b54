import type { StetError } from '@stet/backend';
import type { CommitSample, EndSample, Engine, EngineObserver, EngineStats, StepSample } from '@stet/engine';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const STEP_BUCKETS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const WAIT_BUCKETS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60];

/** What the engine does: its totals when they are asked for, and what it tells of steps and requests as they happen. */
export class EngineMetrics implements EngineObserver {
  readonly #tokens: Counter<'kind' | 'mode'>;
  readonly #requests: Counter<'outcome' | 'mode'>;
  readonly #refused: Counter<'code'>;
  readonly #prefixHits: Counter;
  readonly #steps: Histogram;
  readonly #queue: Histogram<'mode'>;
  readonly #firstToken: Histogram<'mode'>;
  readonly #gaps: Histogram<'mode'>;

  constructor(registry: Registry, engine: Engine) {
    const registers = [registry];
    this.#tokens = new Counter({
      name: 'stet_tokens_total',
      help: 'Tokens: committed as they come; of prompts, found in the prefix cache and computed again when their request ends',
      labelNames: ['kind', 'mode'],
      registers,
    });
    this.#requests = new Counter({
      name: 'stet_requests_total',
      help: 'Requests that have ended, by how; each choice of n is one',
      labelNames: ['outcome', 'mode'],
      registers,
    });
    this.#refused = new Counter({
      name: 'stet_requests_refused_total',
      help: 'Requests that the engine did not take, by the code of the error',
      labelNames: ['code'],
      registers,
    });
    this.#prefixHits = new Counter({
      name: 'stet_prefix_hits_total',
      help: 'Requests that have ended and had found a part of their prompt in the prefix cache',
      registers,
    });
    this.#steps = new Histogram({
      name: 'stet_step_seconds',
      help: 'Time of a step: planned, run by the backend, drawn and applied',
      buckets: STEP_BUCKETS,
      registers,
    });
    const waits = { labelNames: ['mode'] as const, buckets: WAIT_BUCKETS, registers };
    this.#queue = new Histogram({ name: 'stet_queue_seconds', help: 'From arrival to the first step', ...waits });
    this.#firstToken = new Histogram({
      name: 'stet_time_to_first_token_seconds',
      help: 'From arrival to the first commit',
      ...waits,
    });
    this.#gaps = new Histogram({
      name: 'stet_commit_gap_seconds',
      help: 'Between two commits of a request; one of a deterministic request may bring a whole window of tokens',
      ...waits,
    });
    collectTotals(registry, engine);
    collectGauges(registry, engine);
  }

  onStep({ elapsedMs }: StepSample): void {
    this.#steps.observe(elapsedMs / 1000);
  }

  onCommit({ deterministic, tokenCount, elapsedMs, isFirst }: CommitSample): void {
    const mode = modeOf(deterministic);
    this.#tokens.inc({ kind: 'committed', mode }, tokenCount);
    (isFirst ? this.#firstToken : this.#gaps).observe({ mode }, elapsedMs / 1000);
  }

  onEnd({ deterministic, outcome, stats }: EndSample): void {
    const mode = modeOf(deterministic);
    this.#requests.inc({ outcome, mode });
    if (stats === undefined) return;
    this.#tokens.inc({ kind: 'prompt', mode }, stats.promptTokens);
    this.#tokens.inc({ kind: 'cached', mode }, stats.cachedTokens);
    this.#tokens.inc({ kind: 'recomputed', mode }, stats.recomputedTokens);
    if (stats.cachedTokens > 0) this.#prefixHits.inc();
    this.#queue.observe({ mode }, stats.queueMs / 1000);
  }

  onRefused({ code }: StetError): void {
    this.#refused.inc({ code });
  }
}

function modeOf(deterministic: boolean): 'deterministic' | 'ordinary' {
  return deterministic ? 'deterministic' : 'ordinary';
}

/** Totals that the engine counts itself, read at each scrape. */
function collectTotals(registry: Registry, engine: Engine): void {
  const total = (name: string, help: string, read: (stats: EngineStats) => number) =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(read(engine.stats()));
      },
    });
  total('stet_steps_total', 'Steps that were planned', ({ steps }) => steps);
  total('stet_verify_windows_total', 'Verify windows that were run', ({ windows }) => windows);
  total('stet_rollbacks_total', 'Verify windows that ended in a mismatch', ({ rollbacks }) => rollbacks);
  total('stet_drafted_tokens_total', 'Tokens that a drafter guessed', ({ draftedTokens }) => draftedTokens);
  total('stet_drafted_tokens_accepted_total', 'Guesses that were committed', ({ acceptedTokens }) => acceptedTokens);
  total('stet_preemptions_total', 'Times that a request lost its blocks and waited', ({ preemptions }) => preemptions);
  total('stet_backend_recreations_total', 'Backends made anew after a lost device', ({ recreations }) => recreations);
  new Counter({
    name: 'stet_step_rows_total',
    help: 'Rows of steps, by schedule',
    labelNames: ['schedule'],
    registers: [registry],
    collect() {
      const { fastRows, canonicalRows } = engine.stats();
      this.reset();
      this.inc({ schedule: 'fast' }, fastRows);
      this.inc({ schedule: 'canonical' }, canonicalRows);
    },
  });
}

function collectGauges(registry: Registry, engine: Engine): void {
  const gauge = (name: string, help: string, read: (stats: EngineStats) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read(engine.stats()));
      },
    });
  gauge('stet_requests_running', 'Requests that have blocks', ({ running }) => running);
  gauge('stet_requests_waiting', 'Requests that wait for blocks or a place', ({ waiting }) => waiting);
  gauge(
    'stet_verify_mismatch_ratio',
    'Part of all verify windows that ended in a mismatch',
    ({ windows, rollbacks }) => (windows === 0 ? 0 : rollbacks / windows),
  );
  new Gauge({
    name: 'stet_kv_blocks',
    help: 'K/V blocks: free, held by requests, or kept for prompts that begin alike',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const { free, held, cached } = engine.stats().blocks;
      this.set({ state: 'free' }, free);
      this.set({ state: 'held' }, held);
      this.set({ state: 'cached' }, cached);
    },
  });
  new Gauge({
    name: 'stet_memory_bytes',
    help: 'What the backend allocated',
    labelNames: ['use'],
    registers: [registry],
    collect() {
      const { weightBytes, kvBytes, scratchBytes } = engine.info.memory;
      this.set({ use: 'weights' }, weightBytes);
      this.set({ use: 'kv' }, kvBytes);
      this.set({ use: 'scratch' }, scratchBytes);
    },
  });
  new Gauge({
    name: 'stet_info',
    help: 'What is served; the value is always 1',
    labelNames: ['model', 'backend', 'fingerprint', 'numerics', 'guarantee', 'policy'],
    registers: [registry],
    collect() {
      const { model, backend, fingerprint, numerics, guarantee, policy } = engine.info;
      this.reset();
      this.set({ model, backend, fingerprint, numerics, guarantee, policy }, 1);
    },
  });
}
