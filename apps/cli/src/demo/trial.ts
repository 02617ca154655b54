import { type CollectedAnswer, collectAnswer, type GenerateRequest, type StetEngine } from '@stet/engine';
import type { Arrival } from './workload.js';

/** One answer of the subject. */
export interface TrialResult {
  readonly tokens: readonly number[];
  /** The bits of every number of the log-probabilities, as hex: equal strings are equal bits. */
  readonly logprobBits: string;
  readonly durationMs: number;
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  /** Rows of an average step that had the subject in it: how crowded it was. */
  readonly rowsPerStep: number;
}

/** Sends the subject among others that come and go; the others are cancelled when it has ended. */
export async function runTrial(
  engine: StetEngine,
  subject: Arrival,
  crowd: readonly Arrival[],
  signal: AbortSignal,
): Promise<TrialResult> {
  const end = new AbortController();
  const crowdSignal = AbortSignal.any([signal, end.signal]);
  const others = crowd.map((arrival) => sendAndForget(engine, arrival, crowdSignal));
  try {
    await delay(subject.delayMs, signal);
    const before = engine.stats();
    const startMs = performance.now();
    const answer = await collectAnswer(engine.generate(subject.request, { signal }));
    const durationMs = performance.now() - startMs;
    const after = engine.stats();
    const rows = after.fastRows + after.canonicalRows - before.fastRows - before.canonicalRows;
    const { windows, rollbacks, recomputedTokens } = answer.done.stats;
    return {
      tokens: answer.tokens,
      logprobBits: logprobBits(answer),
      ...{ durationMs, windows, rollbacks, recomputedTokens },
      rowsPerStep: rows / Math.max(1, after.steps - before.steps),
    };
  } finally {
    end.abort();
    await Promise.all(others);
  }
}

/** Sends requests that arrive together and waits for all; output tokens per second. */
export async function measureThroughput(
  engine: StetEngine,
  requests: readonly GenerateRequest[],
  signal: AbortSignal,
): Promise<number> {
  const startMs = performance.now();
  const answers = await Promise.all(
    requests.map((request) => collectAnswer(engine.generate(request, { signal: ownSignal(signal) }))),
  );
  const seconds = (performance.now() - startMs) / 1000;
  return answers.reduce((sum, answer) => sum + answer.tokens.length, 0) / seconds;
}

/** A member of the crowd: it may be cut off at any time, also before it arrives. */
async function sendAndForget(engine: StetEngine, { delayMs, request }: Arrival, shared: AbortSignal): Promise<void> {
  const signal = ownSignal(shared);
  try {
    await delay(delayMs, signal);
    await collectAnswer(engine.generate(request, { signal }));
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** A signal that fires with the shared one; Node warns of a leak where many listeners share one. */
function ownSignal(shared: AbortSignal): AbortSignal {
  return AbortSignal.any([shared]);
}

function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

function logprobBits({ logprobs }: CollectedAnswer): string {
  const numbers = logprobs.flatMap(({ logprob, top }) => [logprob, ...top.flatMap((one) => [one.token, one.logprob])]);
  const words = new Uint32Array(Float64Array.from(numbers).buffer);
  return Array.from(words, (word) => word.toString(16).padStart(8, '0')).join('');
}
