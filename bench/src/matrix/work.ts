import { assert, type BackendFactory, StetError, type WeightFormat } from '@stet/backend';
import {
  createEngine,
  dvr,
  type GenerateEvent,
  type GenerateRequest,
  type GenerateStats,
  HashChain,
  type PolicyOption,
  type StetEngine,
} from '@stet/engine';
import type { LoadedModel } from '@stet/model';
import type { MatrixPolicy, Schedule } from './schedule.js';

/** Requests and how they are to be run; plain data, for a page too. */
export interface Work {
  readonly schedule: Schedule;
  /** One after the other; the requests of one at once. */
  readonly groups: readonly {
    readonly asked: readonly GenerateRequest[];
    /** Run until those that are asked have ended. */
    readonly beside: readonly GenerateRequest[];
  }[];
}

/** Everything of an answer that must repeat anywhere. */
export type Answer = {
  /** Of each token: its id, the bits of its log-probability in hex, and `id:bits` of the likeliest, the best one first. */
  readonly steps: readonly string[];
  /** The last commit's. */
  readonly hash: string;
  readonly finishReason: string;
};

/** What came of a {@link Work}. */
export type Answers = {
  readonly kind: 'answers';
  readonly device: string;
  readonly fingerprint: string;
  /** In the order of the requests. */
  readonly answers: readonly Answer[];
  /** Of these requests alone. */
  readonly rollbacks: number;
  readonly cachedTokens: number;
};

/** Where an engine for a {@link Work} comes from. */
export interface WorkPlace {
  readonly backend: BackendFactory;
  open(format: WeightFormat): Promise<LoadedModel>;
}

const KV_BLOCKS = 256;
/** Windows fill whatever the device takes for it. */
const MAX_HOLD_MS = 600_000;

/** Runs in Node and in a page. Rejects with a `StetError` of the backend or the model. */
export async function answerWork({ schedule, groups }: Work, { backend, open }: WorkPlace): Promise<Answers> {
  const { format, policy, prefixCache, maxRows, batch } = schedule;
  await using engine = await createEngine({
    model: open(format),
    backend,
    policy: policyOption(policy),
    prefixCache,
    limits: { maxRows },
    kv: { blockCount: KV_BLOCKS },
  });
  if (prefixCache === 'on')
    for (const { asked } of groups) for (const request of asked) await drain(engine, { ...request, maxTokens: 1 });
  const all: Heard[] = [];
  for (const { asked, beside } of groups) all.push(...(await answerGroup(engine, asked, beside, batch)));
  const sum = (name: 'rollbacks' | 'cachedTokens') => all.reduce((total, { stats }) => total + stats[name], 0);
  assert(prefixCache === 'off' || sum('cachedTokens') > 0, 'nothing came from the prefix cache');
  const { device, fingerprint } = engine.info;
  return {
    kind: 'answers',
    device,
    fingerprint,
    answers: all.map(({ answer }) => answer),
    rollbacks: sum('rollbacks'),
    cachedTokens: sum('cachedTokens'),
  };
}

interface Heard {
  readonly answer: Answer;
  readonly stats: GenerateStats;
}

async function answerGroup(
  engine: StetEngine,
  asked: readonly GenerateRequest[],
  beside: readonly GenerateRequest[],
  batch: number,
): Promise<Heard[]> {
  let mostRunning = 0;
  const stop = engine.observe({
    onStep: () => {
      mostRunning = Math.max(mostRunning, engine.stats().running);
    },
    onCommit: () => {},
    onEnd: () => {},
    onRefused: () => {},
  });
  const end = new AbortController();
  // A signal for each: Node warns of a leak where many listeners share one.
  const others = beside.map((request) => drain(engine, request, AbortSignal.any([end.signal])));
  const answers = asked.map((request) => hear(engine.generate(request)));
  try {
    // Who is beside ends later, or fails.
    const failed = Promise.all(others).then(() => Promise.all(answers));
    const heard = await Promise.race([Promise.all(answers), failed]);
    assert(mostRunning === asked.length + beside.length, `${mostRunning} ran at once and not ${batch}`);
    return heard;
  } finally {
    end.abort();
    stop();
    await Promise.allSettled([...others, ...answers]);
  }
}

async function hear(stream: AsyncIterable<GenerateEvent>): Promise<Heard> {
  const steps: string[] = [];
  const chain = new HashChain();
  let hash = chain.hex;
  for await (const event of stream) {
    if (event.type === 'commit') {
      for (const { token, logprob, top } of event.logprobs ?? [])
        steps.push(
          [`${token} ${bitsOf(logprob)}`, ...top.map((one) => `${one.token}:${bitsOf(one.logprob)}`)].join(' '),
        );
      for (const token of event.tokens) chain.push(token);
      hash = event.hash;
      assert(hash === chain.hex, 'the hash of a commit is not that of the tokens so far');
    }
    if (event.type === 'done') {
      const { finishReason, stats } = event;
      return { answer: { steps, hash, finishReason }, stats };
    }
  }
  throw new Error('a stream ends with done');
}

async function drain(engine: StetEngine, request: GenerateRequest, signal?: AbortSignal): Promise<void> {
  try {
    for await (const _event of engine.generate(request, { ...(signal && { signal }) }));
  } catch (error) {
    if (!(signal?.aborted && error instanceof StetError && error.code === 'STET_ERR_ABORTED')) throw error;
  }
}

function policyOption(policy: MatrixPolicy): PolicyOption {
  return typeof policy === 'string' ? policy : dvr({ windowTokens: policy.dvr, maxHoldMs: MAX_HOLD_MS });
}

/** The bits of an f64, 16 hex digits. */
export function bitsOf(value: number): string {
  return new BigUint64Array(Float64Array.of(value).buffer)[0]!.toString(16).padStart(16, '0');
}

export function valueOfBits(bits: string): number {
  return new Float64Array(BigUint64Array.of(BigInt(`0x${bits}`)).buffer)[0]!;
}
