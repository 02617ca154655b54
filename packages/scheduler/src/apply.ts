import { assert, type BatchResult, type StepResult } from '@stet/backend';
import type { KvCache } from '@stet/kv-cache';
import type { SequenceEvent } from './events.js';
import type { TokenLogprob } from './request.js';
import { tokenLogprob } from './sampling/logprobs.js';
import type { Sampler } from './sampling/sampler.js';
import type { Sequence } from './sequence.js';
import type { PlannedRun, PlannedStep } from './step-plan.js';

export interface ApplyContext {
  readonly kv: KvCache;
  readonly sampler: Sampler;
  readonly vocabSize: number;
  readonly nowMs: number;
  readonly events: SequenceEvent[];
  /** Ends a sequence, frees its blocks and reports it. */
  readonly finish: (sequence: Sequence, reason: 'stop' | 'length') => void;
}

/** Applies the result of a step, run by run. Runs of sequences that ended or lost their blocks meanwhile are ignored. */
export function applyStep(planned: PlannedStep, result: StepResult, context: ApplyContext): void {
  for (const run of planned.runs) {
    if (run.epoch !== run.sequence.epoch) continue;
    const batch = result[run.schedule];
    assert(batch, `the backend gave no result for the ${run.schedule} batch`);
    if (run.sequence.kind === 'ordinary') applyOrdinary(run, batch, context);
    else if (run.schedule === 'fast') applyCandidate(run, batch, context);
    else applyCanonical(run, batch, context);
  }
}

/** An ordinary token commits as it is decoded. */
function applyOrdinary(run: PlannedRun, batch: BatchResult, context: ApplyContext): void {
  const { sequence } = run;
  sequence.kvCount = run.start + run.rowCount;
  if (run.output.outputCount === 0) {
    publish(sequence, context);
    return;
  }
  const token = sampleRow(run, 0, batch, context);
  const logprobs = rowLogprobs(run, 0, token, batch, context);
  sequence.commit(token);
  settle(sequence, sequence.committedCount - 1, logprobs ? [logprobs] : [], context);
}

/** A fast token of a deterministic sequence is a candidate until a window verifies it. */
function applyCandidate(run: PlannedRun, batch: BatchResult, context: ApplyContext): void {
  const { sequence } = run;
  sequence.kvCount = run.start + run.rowCount;
  const token = sampleRow(run, 0, batch, context);
  sequence.pushCandidate(token, context.nowMs);
  if (!sequence.request.provisional) return;
  const from = sequence.committedCount + sequence.candidateCount - 1;
  context.events.push({ kind: 'provisional', id: sequence.id, from, tokens: [token] });
}

/**
 * Canonical rows: prefill, verification or a direct row. Row i's token is compared with candidate i: equal ones commit;
 * at the first difference the canonical token commits and the rest is rolled back; past the candidates each row commits
 * its own. The rows have replaced candidate K/V by canonical K/V up to the last committed token.
 */
function applyCanonical(run: PlannedRun, batch: BatchResult, context: ApplyContext): void {
  const { sequence } = run;
  sequence.canonicalCount = run.start + run.rowCount;
  sequence.kvCount = Math.max(sequence.kvCount, sequence.canonicalCount);
  if (run.output.outputCount === 0) {
    publish(sequence, context);
    return;
  }
  const from = sequence.committedCount;
  const heldSinceMs = sequence.heldSinceMs;
  const candidates = sequence.takeCandidates();
  const logprobs: TokenLogprob[] = [];
  let matched = 0;
  let mismatch = false;
  for (let i = 0; i < run.output.outputCount && !mismatch && !sequence.ending; i++) {
    const token = sampleRow(run, i, batch, context);
    const logprob = rowLogprobs(run, i, token, batch, context);
    if (logprob) logprobs.push(logprob);
    sequence.commit(token);
    if (i >= candidates.length) continue;
    if (token === candidates[i]) matched++;
    else mismatch = true;
  }
  if (candidates.length > 0) sequence.noteWindow(mismatch ? candidates.length - matched : 0);
  if (mismatch) rollBack(sequence, from + matched, context);
  else if (!sequence.ending)
    for (const token of candidates.subarray(matched)) sequence.pushCandidate(token, heldSinceMs);
  settle(sequence, from, logprobs, context);
}

/** Candidate K/V past the last committed token belongs to tokens that are gone. */
function rollBack(sequence: Sequence, to: number, context: ApplyContext): void {
  sequence.canonicalCount = sequence.settledCount - 1;
  sequence.kvCount = sequence.canonicalCount;
  context.kv.shrink(sequence.table, sequence.settledCount);
  if (sequence.request.provisional) context.events.push({ kind: 'rollback', id: sequence.id, to });
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
  const positions = Math.min(deterministic ? sequence.canonicalCount : sequence.kvCount, sequence.settledCount);
  kv.publish(
    sequence.table,
    sequence.settledTokens,
    Math.floor(positions / kv.blockSize),
    deterministic ? 'canonical' : 'fast',
  );
}

function sampleRow(run: PlannedRun, row: number, batch: BatchResult, context: ApplyContext): number {
  if (run.wants === 'argmax') return batch.argmax[run.output.outputIndex + row]!;
  const { sequence } = run;
  const { sampling, seed } = sequence.request;
  const outputIndex = sequence.committedCount + sequence.candidateCount;
  return context.sampler.sample(
    logitsOf(run, row, batch, context),
    sampling,
    seed,
    outputIndex,
    sequence.penaltyCounts,
  );
}

function rowLogprobs(
  run: PlannedRun,
  row: number,
  token: number,
  batch: BatchResult,
  context: ApplyContext,
): TokenLogprob | undefined {
  const { topLogprobs } = run.sequence.request;
  return topLogprobs === undefined ? undefined : tokenLogprob(logitsOf(run, row, batch, context), token, topLogprobs);
}

function logitsOf(run: PlannedRun, row: number, batch: BatchResult, context: ApplyContext): Float32Array {
  const index = run.output.logitsIndex + row;
  return batch.logits.subarray(index * context.vocabSize, (index + 1) * context.vocabSize);
}
