import type { Engine, ObservableEngine } from '@stet/engine';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { AnsweredRequest } from '../http/router.js';
import type { StreamOutcome } from '../streams/stream.js';
import { EngineMetrics } from './engine-metrics.js';
import { processMetrics } from './process-metrics.js';

/** What is read at each scrape. */
export interface ServerGauges {
  readonly isReady: boolean;
  readonly sockets: number;
  readonly attachedStreams: number;
  readonly detachedStreams: number;
  /** Requests to OpenAI's routes that run. */
  readonly httpRuns: number;
  readonly unsentBytes: number;
  readonly keptBytes: number;
}

const ANSWER_BUCKETS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 30, 120];
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'OPTIONS']);

/** The metrics of one server and its engine. No value of a label is anything that a client chose. */
export class ServerMetrics {
  readonly #registry = new Registry();
  readonly #stopObserving: () => void;
  readonly #answers: Counter<'route' | 'method' | 'status'>;
  readonly #answerTime: Histogram<'route'>;
  readonly #sockets: Counter;
  readonly #streams: Counter<'outcome'>;

  constructor(engine: Engine & Partial<ObservableEngine>, gauges: () => ServerGauges) {
    const registers = [this.#registry];
    const engineMetrics = new EngineMetrics(this.#registry, engine);
    this.#stopObserving = engine.observe?.(engineMetrics) ?? (() => {});
    this.#answers = new Counter({
      name: 'stet_http_requests_total',
      help: 'HTTP requests that were answered or given up, by route; upgrades that were refused are among them',
      labelNames: ['route', 'method', 'status'],
      registers,
    });
    this.#answerTime = new Histogram({
      name: 'stet_http_request_seconds',
      help: 'From the head of an HTTP request to the end of its answer',
      labelNames: ['route'],
      buckets: ANSWER_BUCKETS,
      registers,
    });
    this.#sockets = new Counter({ name: 'stet_sockets_opened_total', help: 'WebSockets that were opened', registers });
    this.#streams = new Counter({
      name: 'stet_streams_total',
      help: 'Streams of WebSockets that have ended, by how',
      labelNames: ['outcome'],
      registers,
    });
    collectServerGauges(this.#registry, gauges);
    // Its event loop is measured from now on.
    processMetrics();
  }

  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;

  answered({ route, method, status, elapsedMs }: AnsweredRequest): void {
    const labels = { route: route ?? 'none', method: METHODS.has(method) ? method : 'other', status: String(status) };
    this.#answers.inc(labels);
    this.#answerTime.observe({ route: labels.route }, elapsedMs / 1000);
  }

  socketOpened(): void {
    this.#sockets.inc();
  }

  streamEnded(outcome: StreamOutcome): void {
    this.#streams.inc({ outcome });
  }

  /** In the text format of Prometheus. */
  async text(): Promise<string> {
    return (await this.#registry.metrics()) + (await processMetrics().metrics());
  }

  close(): void {
    this.#stopObserving();
  }
}

function collectServerGauges(registry: Registry, gauges: () => ServerGauges): void {
  const gauge = (name: string, help: string, read: (gauges: ServerGauges) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read(gauges()));
      },
    });
  gauge('stet_ready', '1 while requests are taken, as /ready says, else 0', ({ isReady }) => Number(isReady));
  gauge('stet_sockets', 'WebSockets that are open', ({ sockets }) => sockets);
  gauge('stet_http_requests_running', "Requests to OpenAI's routes that run", ({ httpRuns }) => httpRuns);
  gauge('stet_unsent_bytes', 'Bytes that sockets have not taken yet', ({ unsentBytes }) => unsentBytes);
  gauge('stet_resume_bytes', 'Commits that are kept for a resume', ({ keptBytes }) => keptBytes);
  new Gauge({
    name: 'stet_streams',
    help: 'Streams that have a socket, and those without that can be resumed',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const { attachedStreams, detachedStreams } = gauges();
      this.set({ state: 'attached' }, attachedStreams);
      this.set({ state: 'detached' }, detachedStreams);
    },
  });
}
