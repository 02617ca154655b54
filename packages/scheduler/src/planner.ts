import type { CanonicalShape } from '@stet/backend';
import type { SequenceEvent } from './events.js';
import { fixedWindows } from './fixed-shape.js';
import type { SchedulerLimits } from './limits.js';
import type { CandidateView, VerifyPolicy } from './policy.js';
import type { Residency } from './residency.js';
import type { Sequence } from './sequence.js';
import type { PlannedStep, Schedule, StepDraft } from './step-plan.js';
import { wanted, windowRows } from './window.js';

export interface PlannerParts {
  readonly residency: Residency;
  readonly draft: StepDraft;
  readonly policy: VerifyPolicy;
  readonly limits: SchedulerLimits;
  readonly shape: CanonicalShape | undefined;
}

/** Plans one step: who is admitted, who decodes, whose candidates are verified, whose prompt goes on. */
export function planStep(
  parts: PlannerParts,
  stepNumber: number,
  nowMs: number,
  events: SequenceEvent[],
): PlannedStep | undefined {
  const { residency, draft, policy, limits, shape } = parts;
  draft.reset(stepNumber);
  residency.admit(nowMs, events);
  const ready = reserveNext(residency, limits, nowMs, events);
  const prefilling = residency.running.filter((sequence) => !sequence.paused && sequence.phase === 'prefill');
  const { decoding, verifying } = chooseWork(ready, policy, prefilling, nowMs);
  const besidePrompts = (budget: number, kind: Sequence['kind']) =>
    prefilling.some((sequence) => sequence.kind === kind)
      ? budget - promptShare(budget, limits.prefillBudget, stepNumber)
      : budget;
  if (shape) draft.addFixedShape(fixedWindows(verifying, prefilling, shape, stepNumber), shape);
  else addWindows(draft, verifying, besidePrompts(limits.canonicalBudget, 'deterministic'));
  addDecodes(draft, decoding, besidePrompts(limits.fastBudget, 'ordinary'));
  addPrefill(draft, shape ? prefilling.filter(isOrdinary) : prefilling, limits);
  return draft.finish();
}

/** The sequences past their prefill that have room for one more position, guesses of their drafters included. */
function reserveNext(
  residency: Residency,
  limits: SchedulerLimits,
  nowMs: number,
  events: SequenceEvent[],
): Sequence[] {
  const ready: Sequence[] = [];
  for (const sequence of residency.running) {
    if (sequence.phase !== 'decode' || sequence.paused) continue;
    if (!residency.reserve(sequence, sequence.tokenCount, events)) continue;
    sequence.drafting?.fill(sequence, limits.draftTokens, nowMs);
    // A guess is not worth a preemption.
    if (sequence.draftedCount > 0 && !residency.grow(sequence, sequence.tokenCount)) sequence.takeCandidates();
    ready.push(sequence);
  }
  return ready.sort((a, b) => a.servedStep - b.servedStep);
}

/** Asks the policy what each deterministic sequence does; those that may wait are asked again if a pass runs anyway. */
function chooseWork(ready: readonly Sequence[], policy: VerifyPolicy, prefilling: readonly Sequence[], nowMs: number) {
  const ordinary = ready.filter(isOrdinary);
  const deterministic = ready.filter((sequence) => sequence.kind === 'deterministic');
  policy.survey?.({ ordinaryCount: ordinary.length, deterministicCount: deterministic.length });
  const isDue = (sequence: Sequence) =>
    mustVerify(sequence) || policy.decide(candidateView(sequence, 'none', nowMs)) === 'verify';
  const verifying = deterministic.filter(isDue);
  const waiting = deterministic.filter((sequence) => !verifying.includes(sequence));
  if (verifying.length > 0 || prefilling.some((sequence) => sequence.kind === 'deterministic')) {
    verifying.push(...waiting.filter((one) => policy.decide(candidateView(one, 'planned', nowMs)) === 'verify'));
  }
  const joined = new Set(verifying);
  return { verifying, decoding: ready.filter((sequence) => !joined.has(sequence)) };
}

/** A guess, or an output that is complete if its candidates are right, has nothing to wait for. */
function mustVerify(sequence: Sequence): boolean {
  return sequence.draftedCount > 0 || (sequence.candidateCount > 0 && sequence.ending !== undefined);
}

function candidateView(sequence: Sequence, canonicalPass: 'none' | 'planned', nowMs: number): CandidateView {
  const { candidateCount, smallestGap } = sequence;
  const heldMs = candidateCount > 0 ? nowMs - sequence.heldSinceMs : 0;
  return { candidateCount, smallestGap, heldMs, canonicalPass };
}

/** Rows that decodes and windows leave to prompts, so that no kind starves the other; of a single row, every other step's. */
function promptShare(budget: number, prefillBudget: number, stepNumber: number): number {
  return Math.min(prefillBudget, Math.max(budget >> 1, stepNumber % 2));
}

/**
 * Rows of a window: the last committed token and the candidates, the last one too, whose row gives one more token if
 * all match — unless that candidate ends the output. A window that does not fit is verified in part.
 */
function addWindows(draft: StepDraft, verifying: readonly Sequence[], budget: number): void {
  let left = budget;
  for (const sequence of verifying) {
    const rowCount = Math.min(windowRows(sequence), left);
    if (rowCount <= 0) return;
    const start = sequence.settledCount - 1;
    draft.add(sequence, 'canonical', { start, rowCount, outputFrom: start, wants: wanted(sequence, 'canonical') });
    left -= rowCount;
  }
}

/** One row each, or the window of an ordinary sequence's guess: its fast rows have the canonical bits then. */
function addDecodes(draft: StepDraft, decoding: readonly Sequence[], budget: number): void {
  let left = budget;
  for (const sequence of decoding) {
    const start = sequence.draftedCount > 0 ? sequence.settledCount - 1 : sequence.kvCount;
    const needed = sequence.draftedCount > 0 ? windowRows(sequence) : sequence.tokenCount - start;
    const rowCount = sequence.draftedCount > 0 ? Math.min(needed, left) : needed;
    if (rowCount <= 0 || rowCount > left) return;
    const outputFrom = sequence.draftedCount > 0 ? start : sequence.tokenCount - 1;
    draft.add(sequence, 'fast', { start, rowCount, outputFrom, wants: wanted(sequence, 'fast') });
    left -= rowCount;
  }
}

/**
 * Chunks of prompts, first come first served: both batches share a bound beside other rows, so that tokens keep flowing and
 * no kind of prompt overtakes the other. Rows that tell log-probabilities of the prompt are bounded always: each has all
 * its logits in the step's result.
 */
function addPrefill(draft: StepDraft, prefilling: readonly Sequence[], limits: SchedulerLimits): void {
  let left = draft.rowCount > 0 ? limits.prefillBudget : Number.POSITIVE_INFINITY;
  let scoresLeft = limits.scoreBudget;
  for (const sequence of prefilling) {
    const schedule: Schedule = sequence.kind === 'deterministic' ? 'canonical' : 'fast';
    const start = sequence.kind === 'deterministic' ? sequence.canonicalCount : sequence.kvCount;
    const { outputFrom } = sequence;
    const scorable = sequence.isScored ? Number.POSITIVE_INFINITY : outputFrom - start + scoresLeft;
    const rowCount = Math.min(sequence.settledCount - start, left, draft.room(schedule), scorable);
    if (rowCount <= 0) continue;
    if (!sequence.isScored) scoresLeft -= Math.max(0, start + rowCount - outputFrom);
    draft.add(sequence, schedule, { start, rowCount, outputFrom, wants: wanted(sequence, schedule) });
    left -= rowCount;
  }
}

function isOrdinary(sequence: Sequence): boolean {
  return sequence.kind === 'ordinary';
}
