import { assert, type BatchResult, type Draw, type Drawn, type StepResult } from '@stet/backend';
import { GREEDY } from './request.js';
import type { Adjuster } from './sampling/adjust.js';
import type { PlannedRun, PlannedStep } from './step-plan.js';

/**
 * The tokens that a step's result calls for, all of them known before any is drawn: a row's token counts only if the
 * rows before it gave the candidates that stand before it, so those are its history.
 */
export class StepDraws {
  readonly draws: readonly Draw[];
  /** Where the draws of a run begin, for runs whose tokens are drawn here. */
  private readonly starts = new Map<PlannedRun, number>();

  constructor(planned: PlannedStep, result: StepResult, vocabSize: number, adjuster: Adjuster) {
    const draws: Draw[] = [];
    for (const run of planned.runs) {
      if (run.epoch !== run.sequence.epoch || run.wants === 'argmax') continue;
      this.starts.set(run, draws.length);
      const { logits } = resultOf(run, result);
      for (let row = 0; row < run.output.outputCount; row++) {
        const index = run.output.logitsIndex + row;
        const rowLogits = logits.subarray(index * vocabSize, (index + 1) * vocabSize);
        draws.push(drawOf(run, row, rowLogits, adjuster));
      }
    }
    this.draws = draws;
  }

  /** The answer for a run's output row. The run must have had its epoch when the draws were made. */
  of(run: PlannedRun, row: number, drawn: readonly Drawn[]): Drawn {
    const start = this.starts.get(run);
    assert(start !== undefined, 'a run without draws');
    const answer = drawn[start + row];
    assert(answer !== undefined, 'a draw without an answer');
    return answer;
  }
}

/** The result of the run's batch. */
export function resultOf(run: PlannedRun, result: StepResult): BatchResult {
  const batch = result[run.schedule];
  assert(batch, `the backend gave no result for the ${run.schedule} batch`);
  return batch;
}

/** A fast token of a deterministic sequence is a candidate until a window verifies it. */
export function isCandidate({ sequence, schedule }: PlannedRun): boolean {
  return sequence.kind === 'deterministic' && schedule === 'fast';
}

function drawOf(run: PlannedRun, row: number, logits: Float32Array, adjuster: Adjuster): Draw {
  if (row < run.scoreCount) return promptDraw(run, row, logits);
  return isCandidate(run) ? candidateDraw(run, logits, adjuster) : drawAt(run, row - run.scoreCount, logits, adjuster);
}

/**
 * "Draws" the prompt's own next token, whose logit is put above all others: log-probabilities are those of the raw logits,
 * so every sampler gives the token's in the bits in which it gives those of the output.
 */
function promptDraw({ sequence }: PlannedRun, row: number, logits: Float32Array): Draw {
  const { seed, promptLogprobs } = sequence.request;
  assert(promptLogprobs !== undefined, 'a prompt is scored that nobody asked about');
  const token = sequence.tokenAt(sequence.scoredCount + row + 1);
  const adjusted = { ids: Int32Array.of(token), values: Float64Array.of(Number.MAX_VALUE) };
  return { logits, adjusted, params: GREEDY, seed, outputIndex: 0, topLogprobs: promptLogprobs };
}

/** The token after all candidates; its log-probabilities are of no use to anybody. */
function candidateDraw({ sequence }: PlannedRun, logits: Float32Array, adjuster: Adjuster): Draw {
  const { sampling, seed } = sequence.request;
  const adjusted = adjuster.adjust(logits, sampling, sequence.history);
  const outputIndex = sequence.committedCount + sequence.candidateCount;
  return { logits, ...(adjusted && { adjusted }), params: sampling, seed, outputIndex };
}

/** The token after `row` candidates. */
function drawAt({ sequence }: PlannedRun, row: number, logits: Float32Array, adjuster: Adjuster): Draw {
  const { sampling, seed, topLogprobs } = sequence.request;
  assert(row <= sequence.candidateCount, 'a row past the candidates');
  const adjusted = adjuster.adjust(logits, sampling, sequence.history, sequence.candidates.subarray(row));
  return {
    logits,
    ...(adjusted && { adjusted }),
    params: sampling,
    seed,
    outputIndex: sequence.committedCount + row,
    ...(topLogprobs !== undefined && { topLogprobs }),
  };
}
