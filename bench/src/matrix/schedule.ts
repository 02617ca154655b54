import type { WeightFormat } from '@stet/backend';
import type { Study, StudySize } from '../study/study.js';
import type { MatrixBackend } from './backend-names.js';

/** How a deterministic request gets its tokens; `dvr` with candidates in a window. */
export type MatrixPolicy = 'auto' | 'direct' | { readonly dvr: number };

/** What may change no bit of a canonical answer, and the format of the weights, which is another model. */
export interface Schedule {
  /** `canonical`: the requests are deterministic. `fast`: they are ordinary ones. */
  readonly rows: 'canonical' | 'fast';
  readonly format: WeightFormat;
  readonly policy: MatrixPolicy;
  /** Sequences at once, with random ones to make up the number; 1 is one after the other. */
  readonly batch: number;
  /** Rows of a batch of the backend, by which prompts are cut. */
  readonly maxRows: number;
  /** `on`: the prompts have been read before. */
  readonly prefixCache: 'on' | 'off';
  /** How many of the requests are asked, from the first on. */
  readonly requests: number;
  /** Of the CPU backend alone. */
  readonly threads?: number;
}

/** One cell of the matrix. */
export interface Case {
  readonly backend: MatrixBackend;
  readonly schedule: Schedule;
}

const WHOLE_PROMPT = 256;
const CHUNK = 16;

type Way = Omit<Schedule, 'format' | 'threads' | 'requests'>;

/** Nothing in company, nothing cut, nothing to verify: on the first backend this is what all are held against. */
const alone = way('canonical', 'direct', 1);
const chunks = way('canonical', 'direct', 4, { maxRows: CHUNK });
const smallWindows = way('canonical', { dvr: 4 }, 4, { maxRows: CHUNK });
const largeWindows = way('canonical', { dvr: 16 }, 16);
const cached = way('canonical', { dvr: 16 }, 1, { prefixCache: 'on' });
const chosen = way('canonical', 'auto', 16, { prefixCache: 'on' });
const fastAlone = way('fast', 'direct', 1);
const fastChunks = way('fast', 'direct', 4, { maxRows: CHUNK });
const fastCrowd = way('fast', 'direct', 16);
const all = [alone, chunks, smallWindows, largeWindows, cached, chosen, fastAlone, fastChunks, fastCrowd];

interface Plan {
  /** Of weights in bf16. */
  readonly ways: readonly Way[];
  /** Of weights in q8 and in q4. */
  readonly others: readonly Way[];
  /** How many of the requests, from the first on. */
  readonly requests: number;
}

/** A GPU may be a program on the CPU, to which 30 tokens are a second's work, and TypeScript is hardly quicker. */
const plans: Readonly<Record<MatrixBackend, Readonly<Record<StudySize, Plan>>>> = {
  reference: {
    quick: { ways: [alone, smallWindows], others: [alone], requests: 6 },
    full: { ways: [alone, smallWindows, largeWindows, chosen, fastCrowd], others: [alone, smallWindows], requests: 6 },
  },
  'CPU scalar': cpuPlans(),
  'CPU avx2': cpuPlans(),
  'CPU avx512': cpuPlans(),
  'CPU batch-shaped': cpuPlans(),
  'WebGPU in Node': {
    quick: { ways: [smallWindows, fastAlone], others: [alone], requests: 3 },
    full: { ways: [smallWindows, largeWindows, fastAlone, fastCrowd], others: [smallWindows], requests: 6 },
  },
  'WebGPU+CPU': {
    quick: { ways: [smallWindows], others: [], requests: 3 },
    full: { ways: [smallWindows, largeWindows], others: [alone], requests: 4 },
  },
  'WebGPU in Chromium': {
    quick: { ways: [smallWindows], others: [alone], requests: 3 },
    full: { ways: [smallWindows, chosen, fastAlone], others: [alone], requests: 5 },
  },
  'reference in Chromium': {
    quick: { ways: [alone], others: [], requests: 4 },
    full: { ways: [alone, smallWindows], others: [alone], requests: 4 },
  },
};

function cpuPlans(): Record<StudySize, Plan> {
  return {
    quick: { ways: all, others: [alone, smallWindows, fastCrowd], requests: 6 },
    full: { ways: all, others: all, requests: 6 },
  };
}

const THREADS = [1, 2, 4];

/** All that is asked of a backend. */
export function schedulesOf(backend: MatrixBackend, { size }: Pick<Study, 'size'>): Schedule[] {
  const { ways, others, requests } = plans[backend][size];
  const plain = [
    ...ways.map((one): Schedule => ({ ...one, requests, format: 'bf16' })),
    ...(['q8', 'q4'] as const).flatMap((format) => others.map((one): Schedule => ({ ...one, requests, format }))),
  ];
  if (!backend.startsWith('CPU')) return plain;
  // One after the other in turn; all of them where most is tried.
  return plain.flatMap((one, index) =>
    size === 'full' && one.format === 'bf16'
      ? THREADS.map((threads) => ({ ...one, threads }))
      : { ...one, threads: THREADS[index % THREADS.length]! },
  );
}

/** Seconds that it takes about, on two cores without a GPU. */
export function expectedSeconds({ backend, schedule }: Case): number {
  const { requests, batch } = schedule;
  return (requests + batch / 2) * (backend.startsWith('CPU') ? 0.03 : backend.startsWith('reference') ? 0.4 : 0.8);
}

/** `canonical, bf16, dvr(16), batch 16, 2 threads` */
export function scheduleWords({ threads, ...schedule }: Schedule): string {
  const { rows, format, policy, batch, maxRows, prefixCache } = schedule;
  return [
    rows,
    format,
    ...(rows === 'canonical' ? [policyWords(policy)] : []),
    `batch ${batch}`,
    ...(maxRows === WHOLE_PROMPT ? [] : [`chunks of ${maxRows}`]),
    ...(prefixCache === 'on' ? ['prefix cache'] : []),
    ...(threads === undefined ? [] : [`${threads} ${threads === 1 ? 'thread' : 'threads'}`]),
  ].join(', ');
}

/** Whether it is the one that all of its format are held against, if its backend comes first. */
export function isAlone({ rows, policy, batch, maxRows, prefixCache }: Schedule): boolean {
  return (
    rows === 'canonical' && policy === 'direct' && batch === 1 && maxRows === WHOLE_PROMPT && prefixCache === 'off'
  );
}

function policyWords(policy: MatrixPolicy): string {
  return typeof policy === 'string' ? policy : `dvr(${policy.dvr})`;
}

function way(
  rows: Schedule['rows'],
  policy: MatrixPolicy,
  batch: number,
  { maxRows = WHOLE_PROMPT, prefixCache = 'off' }: Partial<Pick<Schedule, 'maxRows' | 'prefixCache'>> = {},
): Way {
  return { rows, policy, batch, maxRows, prefixCache };
}
