import { dvr, GREEDY, runStep, Scheduler } from '@stet/scheduler';
import { fakeContinuation } from '../fake/continuation.js';
import { createFakeBackend } from '../fake/create-fake-backend.js';
import { fakeLoad } from '../fake/fake-load.js';
import { must } from './failure.js';

/** What a rate of mismatches costs. */
export interface MismatchRow {
  readonly rate: number;
  readonly injected: number;
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  readonly committedTokens: number;
  readonly forwards: number;
  readonly tokensPerForward: number;
}

export const MISMATCH_RATES = [0, 0.01, 0.1, 0.5, 1];
/** The workload: so many greedy deterministic requests at once, of equal length, and windows of so many candidates. */
export const MISMATCH_WORKLOAD = { sequenceCount: 16, outputTokens: 128, windowTokens: 16 };

/** Runs the same requests at each rate. Throws a `Violation` if an answer changes. */
export async function mismatchTable(): Promise<MismatchRow[]> {
  const rows: MismatchRow[] = [];
  for (const rate of MISMATCH_RATES) rows.push(await mismatchRow(rate));
  return rows;
}

async function mismatchRow(rate: number): Promise<MismatchRow> {
  const { sequenceCount, outputTokens, windowTokens } = MISMATCH_WORKLOAD;
  const fake = await createFakeBackend({ mismatchRate: rate, logSteps: 1 })(
    fakeLoad({ blockCount: 256, maxRows: sequenceCount * (windowTokens + 1) }),
  );
  const policy = dvr({ windowTokens, maxHoldMs: Number.MAX_SAFE_INTEGER });
  const scheduler = new Scheduler({ ...fake.info, policy });
  const prompts = Array.from({ length: sequenceCount }, (_, i) => [i, 7, 3 * i, 1]);
  const outputs = prompts.map((): number[] => []);
  prompts.forEach((prompt, i) => {
    const promptTokens = Int32Array.from(prompt);
    const ends = { maxTokens: outputTokens, stopTokens: new Set<number>() };
    const request = { promptTokens, ...ends, sampling: GREEDY, seed: 0, priority: 0, provisional: false };
    scheduler.add({ id: String(i), kind: 'deterministic', ...request }, 0);
  });
  while (scheduler.hasWork) {
    for (const event of await runStep(scheduler, fake, () => 0))
      if (event.kind === 'commit') outputs[Number(event.id)]!.push(...event.tokens);
  }
  outputs.forEach((output, i) => {
    const isRight = output.join() === fakeContinuation(prompts[i]!, outputTokens).join();
    must(isRight, `at a mismatch rate of ${rate} the answer is not the oracle's`, String(i));
  });
  const { windows, rollbacks, recomputedTokens, committedTokens, steps } = scheduler.stats();
  const counts = { windows, rollbacks, recomputedTokens, committedTokens, forwards: steps };
  return { rate, injected: fake.injectedMismatches, ...counts, tokensPerForward: committedTokens / steps };
}
