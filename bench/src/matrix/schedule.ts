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

type Way = Omit<Schedule, 'format' | 'threads'>;

/** Nothing in company, nothing cut, nothing to verify: on the first backend this is what all are held against. */
const alone = way('canonical', 'direct', 1);
const fastAlone = way('fast', 'direct', 1);
const smallWindows = way('canonical', { dvr: 4 }, 4, { maxRows: CHUNK });
const largeWindows = way('canonical', { dvr: 16 }, 16);
const chosen = way('canonical', 'auto', 16, { prefixCache: 'on' });
const fastCrowd = way('fast', 'direct', 16);

const all: readonly Way[] = [
  alone,
  way('canonical', 'direct', 4, { maxRows: CHUNK }),
  smallWindows,
  largeWindows,
  way('canonical', { dvr: 16 }, 1, { prefixCache: 'on' }),
  chosen,
  fastAlone,
  way('fast', 'direct', 4, { maxRows: CHUNK }),
  fastCrowd,
];

interface Plan {
  /** Of weights in bf16. */
  readonly ways: readonly Way[];
  /** Of weights in q8 and in q4. */
  readonly others: readonly Way[];
}

/** On a backend in TypeScript, or one that may be a program in place of a GPU, a token takes milliseconds. */
type Pace = 'quick' | 'slow' | 'slowest';

const plans: Readonly<Record<StudySize, Readonly<Record<Pace, Plan>>>> = {
  quick: {
    quick: { ways: all, others: [alone, smallWindows, largeWindows, fastCrowd] },
    slow: { ways: [smallWindows, largeWindows, fastAlone, fastCrowd], others: [smallWindows] },
    slowest: { ways: [alone, smallWindows], others: [alone] },
  },
  full: {
    quick: { ways: all, others: all },
    slow: { ways: all, others: [alone, smallWindows, largeWindows, fastAlone, fastCrowd] },
    slowest: { ways: [alone, smallWindows, largeWindows, chosen], others: [alone, smallWindows] },
  },
};

const THREADS = [1, 2, 4];

/** All that is asked of a backend, the first of each format alone under the fixed order. */
export function schedulesOf(backend: MatrixBackend, { size }: Pick<Study, 'size'>): Schedule[] {
  const { pace, hasThreads } = traits[backend];
  const { ways, others } = plans[size][pace];
  const plain = [
    ...ways.map((one): Schedule => ({ ...one, format: 'bf16' })),
    ...(['q8', 'q4'] as const).flatMap((format) => others.map((one): Schedule => ({ ...one, format }))),
  ];
  if (hasThreads === 'no') return plain;
  // A quick run takes them in turn.
  return size === 'full'
    ? plain.flatMap((one) => THREADS.map((threads) => ({ ...one, threads })))
    : plain.map((one, index) => ({ ...one, threads: THREADS[index % THREADS.length]! }));
}

const slow = { pace: 'slow', hasThreads: 'no' } as const;
const threaded = { pace: 'quick', hasThreads: 'yes' } as const;
const traits: Readonly<Record<MatrixBackend, { readonly pace: Pace; readonly hasThreads: 'yes' | 'no' }>> = {
  reference: { pace: 'slowest', hasThreads: 'no' },
  'CPU scalar': threaded,
  'CPU avx2': threaded,
  'CPU avx512': threaded,
  'CPU batch-shaped': threaded,
  'WebGPU in Node': slow,
  'WebGPU+CPU': slow,
  'WebGPU in Chromium': slow,
  'reference in Chromium': { pace: 'slowest', hasThreads: 'no' },
};

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
