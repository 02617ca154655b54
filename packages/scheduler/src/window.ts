import type { Sequence } from './sequence.js';
import type { Schedule } from './step-plan.js';

/**
 * Rows from the last committed token on: its own and one for each candidate — but the last candidate's is left out if
 * that candidate ends the output, since nothing follows it.
 */
export function windowRows(sequence: Sequence): number {
  const isComplete = sequence.candidateCount > 0 && sequence.ending !== undefined;
  return sequence.candidateCount + (isComplete ? 0 : 1);
}

/** Log-probabilities of deterministic requests come from canonical rows alone, so their candidates do not need logits for them. */
export function wanted(sequence: Sequence, schedule: Schedule): 'argmax' | 'logits' {
  const { sampling, topLogprobs, kind } = sequence.request;
  const committing = kind === 'ordinary' || schedule === 'canonical';
  if ((topLogprobs !== undefined || !sequence.isScored) && committing) return 'logits';
  const plain = sampling.temperature === 0 && sampling.logitBias.size === 0 && sequence.history === undefined;
  return plain ? 'argmax' : 'logits';
}
