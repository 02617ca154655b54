import type { Engine } from '@stet/engine';
import { type AnswerDigests, answerDigests } from './equal-answers.js';
import type { TraceRequest } from './trace.js';

/** What an engine did for a trace. */
export type TraceRun = {
  /** From sending the first request to the end of the last answer. */
  readonly seconds: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly deterministicTokens: number;
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  readonly digests: AnswerDigests;
};

/** Sends all requests at once to an engine that does nothing else. Rejects as its answers do, when `signal` fires among others. */
export async function runTrace(engine: Engine, trace: readonly TraceRequest[], signal: AbortSignal): Promise<TraceRun> {
  const before = engine.stats();
  const end = new AbortController();
  const start = performance.now();
  const answers = trace.map(async (request) => {
    let tokens = 0;
    let hash = '';
    // A signal of its own: Node warns of a leak where many listeners share one.
    const own = AbortSignal.any([signal, end.signal]);
    for await (const event of engine.generate(request, { signal: own })) {
      if (event.type !== 'commit') continue;
      tokens += event.tokens.length;
      hash = event.hash;
    }
    return { tokens, hash };
  });
  try {
    const answered = await Promise.all(answers);
    const seconds = (performance.now() - start) / 1000;
    const after = engine.stats();
    const counts = answered.map(({ tokens }) => tokens);
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    return {
      seconds,
      promptTokens: sum(trace.map(({ promptTokens }) => promptTokens.length)),
      outputTokens: sum(counts),
      deterministicTokens: sum(counts.filter((_, i) => trace[i]!.deterministic)),
      windows: after.windows - before.windows,
      rollbacks: after.rollbacks - before.rollbacks,
      recomputedTokens: after.recomputedTokens - before.recomputedTokens,
      digests: answerDigests(answered.map(({ hash }, i) => (trace[i]!.deterministic ? hash : undefined))),
    };
  } finally {
    end.abort();
    await Promise.allSettled(answers);
  }
}
