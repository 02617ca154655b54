import { CostModel, type CostPoint } from './cost-model.js';
import { type StepView, type VerifyPolicy, windowIsDue } from './policy.js';

export interface AutoOptions {
  /** Times of forwards measured at start; without them the model learns from the first steps. */
  readonly calibration?: readonly CostPoint[];
  /** A candidate waits no longer than this before its window is due, 100 ms by default. */
  readonly maxHoldMs?: number;
  /** A greedy candidate whose best two fast logits are nearer than this makes its window due, 0.02 by default. */
  readonly nearTieGap?: number;
}

/** Windows that are weighed against each other and against decoding in the canonical batch directly. */
const WINDOWS = [2, 4, 8, 16, 32];
/** A way must promise this much more than the present one: changing costs nothing, but flutter helps nobody. */
const MARGIN = 1.05;
/** Windows must promise this much more than direct rows, whose cost is the surer. */
const WINDOW_MARGIN = 1.05;
/** Weight of a step's mismatches. */
const LEARNING_RATE = 0.02;

/**
 * Chooses, step by step, whether deterministic sequences decode directly in the canonical batch or by verified windows,
 * and of what size: whatever gives most tokens a second, ordinary ones included, by a model of both forwards and the
 * mismatches seen. So deterministic traffic of 0 % costs nothing, and of 100 % no more than running it canonically.
 */
export function auto(options: AutoOptions = {}): VerifyPolicy {
  const { calibration, maxHoldMs = 100, nearTieGap = 0.02 } = options;
  const model = new CostModel(calibration);
  let mismatchRate = 0.005;
  /** 0 is direct. */
  let windowTokens = 0;
  return {
    name: 'auto',
    survey: (view) => {
      windowTokens = bestWindow(model, view, mismatchRate, windowTokens);
    },
    decide: (view) => {
      if (windowTokens === 0) return 'verify';
      if (windowIsDue(view, windowTokens, maxHoldMs, nearTieGap)) return 'verify';
      const isWorthSharing = view.canonicalPass === 'planned' && 2 * view.candidateCount >= windowTokens;
      return isWorthSharing ? 'verify' : 'decode';
    },
    observe: (outcome) => {
      model.observe(outcome);
      if (outcome.verifiedCandidates === 0) return;
      const weight = 1 - (1 - LEARNING_RATE) ** outcome.verifiedCandidates;
      mismatchRate += weight * (outcome.mismatches / outcome.verifiedCandidates - mismatchRate);
    },
  };
}

function bestWindow(model: CostModel, view: StepView, mismatchRate: number, current: number): number {
  if (view.deterministicCount === 0) return current;
  let best = current;
  let bestSpeed = tokensPerMs(model, view, mismatchRate, current) * MARGIN;
  for (const windowTokens of [0, ...WINDOWS]) {
    const speed = tokensPerMs(model, view, mismatchRate, windowTokens);
    if (speed > bestSpeed) {
      best = windowTokens;
      bestSpeed = speed;
    }
  }
  return best;
}

/**
 * Tokens per millisecond of a round: with windows of W, W steps in which all decode and one in which the deterministic
 * sequences are verified while the ordinary ones decode on.
 */
export function tokensPerMs(model: CostModel, view: StepView, mismatchRate: number, windowTokens: number): number {
  const { ordinaryCount, deterministicCount } = view;
  if (windowTokens === 0) {
    return (ordinaryCount + deterministicCount) / model.stepMs(ordinaryCount, deterministicCount);
  }
  const steps = windowTokens + 1;
  const committed = expectedTokens(windowTokens, mismatchRate);
  const decodeMs = windowTokens * model.stepMs(ordinaryCount + deterministicCount, 0);
  const verifyMs = model.stepMs(ordinaryCount, deterministicCount * steps);
  return (ordinaryCount * steps + deterministicCount * committed) / (decodeMs + verifyMs) / WINDOW_MARGIN;
}

/** Tokens a window commits on average: those before the first mismatch, and one more. */
function expectedTokens(windowTokens: number, mismatchRate: number): number {
  let expected = 0;
  for (let i = 0; i <= windowTokens; i++) expected += (1 - mismatchRate) ** i;
  return expected;
}
