import type { Workload } from './workloads.js';

/** When the tokens of one run came, on one clock. */
export interface RunTimes {
  readonly startMs: number;
  /** By stream, ascending. */
  readonly arrivals: readonly (readonly number[])[];
}

/** Tokens per second of what a workload is about: of the prompt up to the first output token, or of all streams while all of them write. */
export function rateOf({ kind, prompts, outputTokens }: Workload, { startMs, arrivals }: RunTimes): number {
  if (arrivals.length !== prompts.length || arrivals.some((times) => times.length !== outputTokens))
    throw new Error(`a run gave ${arrivals.map((times) => times.length)} tokens, expected ${outputTokens} a stream`);
  if (kind === 'prefill') {
    const promptTokens = prompts.reduce((sum, prompt) => sum + prompt.length, 0);
    return (promptTokens * 1000) / (Math.max(...arrivals.map(([first]) => first!)) - startMs);
  }
  return decodeRate(arrivals);
}

/**
 * The sum of the streams' rates from when the last one has begun to when the first one ends. A stream's rate is that between
 * its own arrivals, so that it does not matter in which order streams of one step are told.
 */
export function decodeRate(arrivals: readonly (readonly number[])[]): number {
  const begin = Math.max(...arrivals.map((times) => times[0]!));
  const end = Math.min(...arrivals.map((times) => times.at(-1)!));
  return arrivals.reduce((sum, times) => {
    const inside = times.filter((time) => time >= begin && time <= end);
    const [first, last] = [inside[0], inside.at(-1)];
    if (first === undefined || last === undefined || first === last)
      throw new Error('the streams of a run did not write at the same time: too few tokens to measure');
    return sum + (inside.filter((time) => time > first).length * 1000) / (last - first);
  }, 0);
}
