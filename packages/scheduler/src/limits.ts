import { assert, type CanonicalShape } from '@stet/backend';

/** Every queue and batch of the scheduler has a named limit. */
export interface SchedulerLimits {
  /** Sequences that wait for admission; one more is refused with STET_ERR_QUEUE_FULL. */
  readonly maxWaiting: number;
  /** Sequences that hold blocks at once. */
  readonly maxRunning: number;
  /** Rows of a step's fast batch. */
  readonly fastBudget: number;
  /** Rows of a step's canonical batch. */
  readonly canonicalBudget: number;
  /** Rows of prompts in a step beside others, in both batches together: it bounds how long they delay the tokens of others. */
  readonly prefillBudget: number;
  /** Rows of a step that tell log-probabilities of prompts: it bounds the logits of its result. Fixed shapes have their own bound. */
  readonly scoreBudget: number;
  /** Tokens that a drafter may guess at once. */
  readonly draftTokens: number;
}

export const DEFAULT_LIMITS: SchedulerLimits = {
  maxWaiting: 1024,
  maxRunning: 256,
  fastBudget: 512,
  canonicalBudget: 512,
  prefillBudget: 192,
  scoreBudget: 64,
  draftTokens: 16,
};

/** The limits with defaults filled in and both budgets cut to what a batch of the backend may have. */
export function resolveLimits(
  limits: Partial<SchedulerLimits> | undefined,
  maxRows: number,
  shape?: CanonicalShape,
): SchedulerLimits {
  const all = { ...DEFAULT_LIMITS, ...limits };
  for (const [name, value] of Object.entries(all)) {
    const least = name === 'maxWaiting' ? 0 : 1;
    assert(Number.isInteger(value) && value >= least, `limit ${name} is ${value}, expected an integer from ${least}`);
  }
  const shapeRows = shape ? shape.sequenceCount * shape.windowTokens : 0;
  assert(shapeRows <= maxRows, `a fixed shape of ${shapeRows} rows does not fit into a batch of ${maxRows}`);
  return {
    ...all,
    fastBudget: Math.min(all.fastBudget, maxRows),
    canonicalBudget: Math.max(shapeRows, Math.min(all.canonicalBudget, maxRows)),
  };
}
