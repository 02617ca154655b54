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

/** Windows that are weighed against each other and against decoding in the canonical batch directly (0). */
const WAYS = [0, 2, 4, 8, 16, 32];
/** A way must promise this much more than the present one: changing costs nothing, but flutter helps nobody. */
const MARGIN = 1.05;
/** Windows must promise this much more than direct rows, which keep their promise better. */
const DIRECT_MARGIN = 1.1;
/** Weight of a step's mismatches. */
const LEARNING_RATE = 0.02;

/**
 * Chooses, step by step, whether deterministic sequences decode directly in the canonical batch or by verified windows,
 * and of what size: whatever gives most tokens a second, ordinary ones included. What a way promises is the model of
 * both forwards, with the mismatches seen, times how well its promises were kept. So deterministic traffic of 0 % costs
 * nothing, and of 100 % about what running it canonically does, plus what is spent on trying.
 */
export function auto(options: AutoOptions = {}): VerifyPolicy {
  const { calibration, maxHoldMs = 100, nearTieGap = 0.02 } = options;
  const model = new CostModel(calibration);
  const kept = { direct: new KeptPromises(), windows: new KeptPromises() };
  const keptBy = (windowTokens: number) => (windowTokens === 0 ? kept.direct : kept.windows);
  let mismatchRate = 0.005;
  let windowTokens = 0;
  /** Tokens per millisecond that the present way promised for this step; 0 without deterministic sequences. */
  let promised = 0;
  const promise = (view: StepView, way: number) => tokensPerMs(model, view, mismatchRate, way);
  return {
    name: 'auto',
    survey: (view) => {
      promised = 0;
      if (view.deterministicCount === 0) return;
      const margin = (way: number) => (way === windowTokens ? MARGIN : 1) * (way === 0 ? DIRECT_MARGIN : 1);
      const worth = (way: number) => promise(view, way) * keptBy(way).share * margin(way);
      windowTokens = WAYS.reduce((best, way) => (worth(way) > worth(best) ? way : best), windowTokens);
      promised = promise(view, windowTokens);
    },
    decide: (view) => {
      if (windowTokens === 0) return 'verify';
      if (windowIsDue(view, windowTokens, maxHoldMs, nearTieGap)) return 'verify';
      const isWorthSharing = view.canonicalPass === 'planned' && 2 * view.candidateCount >= windowTokens;
      return isWorthSharing ? 'verify' : 'decode';
    },
    observe: (outcome) => {
      model.observe(outcome);
      if (promised > 0 && outcome.prefillRows === 0) {
        keptBy(windowTokens).note(outcome.committedTokens, promised * outcome.elapsedMs);
        keptBy(windowTokens === 0 ? 2 : 0).forget();
      }
      if (outcome.verifiedCandidates === 0) return;
      const weight = 1 - (1 - LEARNING_RATE) ** outcome.verifiedCandidates;
      mismatchRate += weight * (outcome.mismatches / outcome.verifiedCandidates - mismatchRate);
    },
  };
}

/** Steps over which promises and what came of them are compared: many windows, since a window brings nothing until it ends. */
const MEMORY_STEPS = 200;
/** A way that is not taken is given the benefit of the doubt again after about this many steps. */
const FORGET_STEPS = 10_000;

/** Tokens that a way brought over those it promised, lately. Begins as if its promises had been kept. */
class KeptPromises {
  private tokens = 0;
  private promised = 0;

  get share(): number {
    return this.promised > 0 ? Math.min(1.5, Math.max(0.2, this.tokens / this.promised)) : 1;
  }

  note(tokens: number, promised: number): void {
    if (this.promised === 0) {
      this.tokens = promised * MEMORY_STEPS;
      this.promised = promised * MEMORY_STEPS;
    }
    this.tokens += tokens - this.tokens / MEMORY_STEPS;
    this.promised += promised - this.promised / MEMORY_STEPS;
  }

  forget(): void {
    this.tokens += (this.promised - this.tokens) / FORGET_STEPS;
  }
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
  return (ordinaryCount * steps + deterministicCount * committed) / (decodeMs + verifyMs);
}

/** Tokens a window commits on average: those before the first mismatch, and one more. */
function expectedTokens(windowTokens: number, mismatchRate: number): number {
  let expected = 0;
  for (let i = 0; i <= windowTokens; i++) expected += (1 - mismatchRate) ** i;
  return expected;
}
