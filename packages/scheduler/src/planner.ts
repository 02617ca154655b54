import type { SequenceEvent } from './events.js';
import type { SchedulerLimits } from './limits.js';
import type { VerifyPolicy } from './policy.js';
import type { Residency } from './residency.js';
import type { Sequence } from './sequence.js';
import type { PlannedStep, Schedule, StepDraft } from './step-plan.js';

export interface PlannerParts {
  readonly residency: Residency;
  readonly draft: StepDraft;
  readonly policy: VerifyPolicy;
  readonly limits: SchedulerLimits;
}

/** Plans one step: who is admitted, who decodes, whose candidates are verified, whose prompt goes on. */
export function planStep(
  parts: PlannerParts,
  stepNumber: number,
  nowMs: number,
  events: SequenceEvent[],
): PlannedStep | undefined {
  const { residency, draft, policy, limits } = parts;
  draft.reset();
  residency.admit(nowMs, events);
  const { decoding, verifying } = chooseWork(residency, policy, nowMs, events);
  const prefilling = residency.running.filter((sequence) => !sequence.paused && sequence.phase === 'prefill');
  addVerification(draft, verifying, verifyBudget(limits, prefilling), stepNumber);
  addDecodes(draft, decoding, stepNumber);
  addPrefill(draft, prefilling, limits, stepNumber);
  return draft.finish();
}

/** Gives every sequence past its prefill room for one more position and asks the policy what it does this step. */
function chooseWork(residency: Residency, policy: VerifyPolicy, nowMs: number, events: SequenceEvent[]) {
  const decoding: Sequence[] = [];
  const verifying: Sequence[] = [];
  for (const sequence of residency.running) {
    if (sequence.phase !== 'decode' || sequence.paused) continue;
    if (!residency.reserve(sequence, sequence.tokenCount, events)) continue;
    (nextAction(sequence, policy, nowMs) === 'verify' ? verifying : decoding).push(sequence);
  }
  return { decoding: leastRecentlyServed(decoding), verifying: leastRecentlyServed(verifying) };
}

function nextAction(sequence: Sequence, policy: VerifyPolicy, nowMs: number): 'decode' | 'verify' {
  if (sequence.kind === 'ordinary') return 'decode';
  const { candidateCount } = sequence;
  const finishing = candidateCount > 0 && sequence.ending !== undefined;
  if (finishing) return 'verify';
  return policy.decide({ candidateCount, finishing, heldMs: candidateCount > 0 ? nowMs - sequence.heldSinceMs : 0 });
}

/** Verification leaves the prompts of deterministic sequences their share of the canonical batch. */
function verifyBudget(limits: SchedulerLimits, prefilling: readonly Sequence[]): number {
  const share = Math.min(limits.prefillBudget, limits.canonicalBudget >> 1);
  return limits.canonicalBudget - (prefilling.some((sequence) => sequence.kind === 'deterministic') ? share : 0);
}

/**
 * Rows of a window: the last committed token and the candidates, the last one too, whose row gives one more token if
 * all match — unless that candidate ends the output. A window that does not fit is verified in part.
 */
function addVerification(draft: StepDraft, verifying: readonly Sequence[], budget: number, stepNumber: number): void {
  let left = budget;
  for (const sequence of verifying) {
    const start = sequence.settledCount - 1;
    const end = sequence.tokenCount - (sequence.candidateCount > 0 && sequence.ending !== undefined ? 1 : 0);
    const rowCount = Math.min(end - start, left);
    if (rowCount <= 0) return;
    draft.add(sequence, 'canonical', { start, rowCount, outputFrom: start, wants: wanted(sequence, 'canonical') });
    sequence.servedStep = stepNumber;
    left -= rowCount;
  }
}

function addDecodes(draft: StepDraft, decoding: readonly Sequence[], stepNumber: number): void {
  for (const sequence of decoding) {
    const start = sequence.kvCount;
    const rowCount = sequence.tokenCount - start;
    if (rowCount > draft.room('fast')) return;
    draft.add(sequence, 'fast', {
      start,
      rowCount,
      outputFrom: sequence.tokenCount - 1,
      wants: wanted(sequence, 'fast'),
    });
    sequence.servedStep = stepNumber;
  }
}

/** Chunks of prompts, first come first served; beside other rows they are bounded, so that tokens keep flowing. */
function addPrefill(
  draft: StepDraft,
  prefilling: readonly Sequence[],
  limits: SchedulerLimits,
  stepNumber: number,
): void {
  const share = draft.rowCount > 0 ? limits.prefillBudget : Number.POSITIVE_INFINITY;
  const left = { fast: Math.min(share, draft.room('fast')), canonical: Math.min(share, draft.room('canonical')) };
  for (const sequence of prefilling) {
    const schedule: Schedule = sequence.kind === 'deterministic' ? 'canonical' : 'fast';
    const start = sequence.kind === 'deterministic' ? sequence.canonicalCount : sequence.kvCount;
    const rowCount = Math.min(sequence.settledCount - start, left[schedule]);
    if (rowCount <= 0) continue;
    draft.add(sequence, schedule, {
      start,
      rowCount,
      outputFrom: sequence.settledCount - 1,
      wants: wanted(sequence, schedule),
    });
    sequence.servedStep = stepNumber;
    left[schedule] -= rowCount;
  }
}

/** Log-probabilities of deterministic requests come from canonical rows alone, so their candidates do not need logits for them. */
function wanted(sequence: Sequence, schedule: Schedule): 'argmax' | 'logits' {
  const { sampling, topLogprobs, kind } = sequence.request;
  const committing = kind === 'ordinary' || schedule === 'canonical';
  if (topLogprobs !== undefined && committing) return 'logits';
  const plain = sampling.temperature === 0 && sampling.logitBias.size === 0;
  return plain && sampling.frequencyPenalty === 0 && sampling.presencePenalty === 0 ? 'argmax' : 'logits';
}

function leastRecentlyServed(sequences: Sequence[]): Sequence[] {
  return sequences.sort((a, b) => a.servedStep - b.servedStep);
}
