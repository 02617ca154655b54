import { assert, type BatchResult, type Drawn, type StepResult } from '@stet/backend';
import type { KvCache } from '@stet/kv-cache';
import type { SequenceEvent } from './events.js';
import { alignDown } from './fixed-shape.js';
import type { TokenLogprob } from './request.js';
import type { Sequence } from './sequence.js';
import { isCandidate, resultOf, type StepDraws } from './step-draws.js';
import type { PlannedRun, PlannedStep } from './step-plan.js';

export interface ApplyContext {
  readonly kv: KvCache;
  readonly draws: StepDraws;
  /** The answers to `draws`. */
  readonly drawn: readonly Drawn[];
  /** Rows of a fixed window, 1 for portable backends. */
  readonly windowTokens: number;
  readonly nowMs: number;
  readonly events: SequenceEvent[];
  /** What verification showed in this step. */
  readonly verdicts: { verifiedCandidates: number; mismatches: number };
  /** Ends a sequence, frees its blocks and reports it. */
  readonly finish: (sequence: Sequence, reason: 'stop' | 'length') => void;
}

/** Applies the result of a step, run by run. Runs of sequences that ended or lost their blocks meanwhile are ignored. */
export function applyStep(planned: PlannedStep, result: StepResult, context: ApplyContext): void {
  for (const run of planned.runs) {
    if (run.epoch !== run.sequence.epoch) continue;
    const batch = resultOf(run, result);
    if (isCandidate(run)) applyCandidate(run, batch, context);
    else applyCommitting(run, batch, context);
  }
}

/** A fast token of a deterministic sequence is a candidate until a window verifies it. */
function applyCandidate(run: PlannedRun, batch: BatchResult, context: ApplyContext): void {
  const { sequence } = run;
  sequence.kvCount = run.start + run.rowCount;
  const { token } = drawnOf(run, 0, batch, context);
  sequence.pushCandidate(token, context.nowMs);
  if (run.wants === 'argmax') sequence.smallestGap = Math.min(sequence.smallestGap, gapOf(run, batch));
  if (!sequence.request.provisional) return;
  const from = sequence.committedCount + sequence.candidateCount - 1;
  context.events.push({ kind: 'provisional', id: sequence.id, from, tokens: [token] });
}

/**
 * Rows whose tokens commit: canonical rows of a deterministic sequence (prefill, verification, a direct row) and all
 * rows of an ordinary one. Row i's token is compared with candidate i: equal ones commit; at the first difference the
 * row's own token commits and the rest is rolled back; past the candidates each row commits its own. Canonical rows
 * have replaced candidate K/V up to the last committed token.
 */
function applyCommitting(run: PlannedRun, batch: BatchResult, context: ApplyContext): void {
  const { sequence } = run;
  const written = run.start + run.rowCount;
  if (run.scoreCount > 0) noteScores(run, batch, context);
  const drawnCount = run.output.outputCount - run.scoreCount;
  if (drawnCount === 0) {
    noteWritten(sequence, written, 'kept');
    publish(sequence, context);
    return;
  }
  const from = sequence.committedCount;
  const { heldSinceMs, draftedCount } = sequence;
  const candidates = sequence.takeCandidates();
  const logprobs: TokenLogprob[] = [];
  let matched = 0;
  let mismatch = false;
  for (let i = 0; i < drawnCount && !mismatch && !sequence.ending; i++) {
    const { token, logprob } = drawnOf(run, run.scoreCount + i, batch, context);
    if (logprob) logprobs.push(logprob);
    sequence.commit(token);
    if (i >= candidates.length) continue;
    if (token === candidates[i]) matched++;
    else mismatch = true;
  }
  noteWritten(sequence, Math.min(written, sequence.settledCount - 1), mismatch ? 'dropped' : 'kept');
  noteVerdict(sequence, candidates.length, draftedCount, matched, mismatch, context);
  if (mismatch) rollBack(sequence, from + matched, draftedCount, context);
  else if (!sequence.ending && draftedCount === 0)
    for (const token of candidates.subarray(matched)) sequence.pushCandidate(token, heldSinceMs);
  settle(sequence, from, logprobs, context);
}

/** Reports what rows of the prompt tell of the tokens after them. */
function noteScores(run: PlannedRun, batch: BatchResult, context: ApplyContext): void {
  const { sequence, scoreCount } = run;
  const from = sequence.scoredCount + 1;
  const logprobs: TokenLogprob[] = [];
  for (let row = 0; row < scoreCount; row++) {
    const { token, logprob } = drawnOf(run, row, batch, context);
    assert(logprob && token === sequence.tokenAt(from + row), 'a row of the prompt tells of its next token');
    logprobs.push(logprob);
  }
  sequence.scoredCount += scoreCount;
  context.events.push({ kind: 'promptLogprobs', id: sequence.id, from, logprobs });
}

/** K/V was written up to a position; what candidates had after it is kept or dropped. */
function noteWritten(sequence: Sequence, positionCount: number, candidates: 'kept' | 'dropped'): void {
  if (sequence.kind === 'deterministic') sequence.canonicalCount = positionCount;
  sequence.kvCount = candidates === 'kept' ? Math.max(sequence.kvCount, positionCount) : positionCount;
}

/** Counts a window: fast candidates tell how often the schedules differ, guesses how good the drafter is. */
function noteVerdict(
  sequence: Sequence,
  candidateCount: number,
  draftedCount: number,
  matched: number,
  mismatch: boolean,
  context: ApplyContext,
): void {
  if (candidateCount === 0) return;
  if (draftedCount > 0) {
    sequence.noteDraft(draftedCount, matched);
    sequence.drafting?.learn(matched, sequence);
  } else {
    context.verdicts.verifiedCandidates += matched + (mismatch ? 1 : 0);
    context.verdicts.mismatches += mismatch ? 1 : 0;
  }
  if (sequence.kind === 'deterministic') sequence.noteWindow(mismatch ? candidateCount - matched : 0);
}

/** The blocks past the last committed token's are given back, and what was shown of the candidates is withdrawn. */
function rollBack(sequence: Sequence, to: number, draftedCount: number, context: ApplyContext): void {
  context.kv.shrink(sequence.table, sequence.settledCount);
  if (sequence.request.provisional && draftedCount === 0) {
    context.events.push({ kind: 'rollback', id: sequence.id, to });
  }
}

/** Distance of a decode row's best two logits. */
function gapOf(run: PlannedRun, batch: BatchResult): number {
  const { outputIndex } = run.output;
  return batch.argmaxLogit[outputIndex]! - batch.runnerUpLogit[outputIndex]!;
}

/** Reports what was committed from output index `from` on, shares full blocks, and ends the sequence if its output is complete. */
function settle(sequence: Sequence, from: number, logprobs: readonly TokenLogprob[], context: ApplyContext): void {
  const tokens = Array.from(sequence.settledTokens.subarray(sequence.promptCount + from));
  assert(tokens.length > 0, 'a pass committed nothing');
  sequence.phase = 'decode';
  sequence.noteCommit(context.nowMs);
  context.events.push({ kind: 'commit', id: sequence.id, from, tokens, ...(logprobs.length > 0 && { logprobs }) });
  publish(sequence, context);
  const ending = sequence.candidateCount === 0 ? sequence.ending : undefined;
  if (ending) context.finish(sequence, ending);
}

/** Full blocks of settled tokens go to the prefix cache; nothing writes them again. */
function publish(sequence: Sequence, context: ApplyContext): void {
  const { kv } = context;
  const deterministic = sequence.kind === 'deterministic';
  const written = Math.min(deterministic ? sequence.canonicalCount : sequence.kvCount, sequence.settledCount);
  // The rows of a fixed window are written again until the window is behind.
  const positions = deterministic ? alignDown(written, context.windowTokens) : written;
  kv.publish(
    sequence.table,
    sequence.settledTokens,
    Math.floor(positions / kv.blockSize),
    deterministic ? 'canonical' : 'fast',
  );
}

function drawnOf(run: PlannedRun, row: number, batch: BatchResult, { draws, drawn }: ApplyContext): Drawn {
  if (run.wants === 'argmax') return { token: batch.argmax[run.output.outputIndex + row]! };
  return draws.of(run, row, drawn);
}
