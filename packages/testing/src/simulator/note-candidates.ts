import type { StepResult } from '@stet/backend';
import type { PlannedRun, PlannedStep } from '@stet/scheduler';
import { must } from './failure.js';
import { plainSample } from './plain-sampler.js';
import type { RequestRecord } from './request-record.js';

/**
 * Notes the candidates that a step has: those a drafter guessed for it, and those its result brings, which are read from
 * the backend's own answers to the fast rows of deterministic requests.
 * `recordOf` knows the requests that the result still matters to.
 */
export function noteCandidates(
  planned: PlannedStep,
  result: StepResult,
  recordOf: (id: string) => RequestRecord | undefined,
): void {
  for (const run of planned.runs) {
    const record = recordOf(run.sequence.id);
    if (!record) continue;
    record.enterEpoch(run.epoch);
    const { sequence, schedule } = run;
    if (sequence.draftedCount > 0) {
      record.draft(
        Array.from({ length: sequence.candidateCount }, (_, i) => sequence.tokenAt(sequence.settledCount + i)),
      );
      continue;
    }
    if (record.simulated.request.kind === 'ordinary' || schedule === 'canonical') continue;
    must(run.output.outputCount === 1, `a decode row gives ${run.output.outputCount} tokens`, record.id);
    record.candidates.push(candidateOf(run, result, record));
  }
}

function candidateOf(run: PlannedRun, result: StepResult, record: RequestRecord): number {
  const { argmax, logits } = result.fast!;
  if (run.wants === 'argmax') return argmax[run.output.outputIndex]!;
  const vocabSize = record.vocabSize;
  const row = logits.subarray(run.output.logitsIndex * vocabSize, (run.output.logitsIndex + 1) * vocabSize);
  const output = [...record.answer.output, ...record.candidates];
  const { sampling, seed, promptTokens } = record.simulated.request;
  return plainSample(row, sampling, seed, output.length, promptTokens, output);
}
