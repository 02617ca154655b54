import { type Backend, type Batch, type BatchResult, OUTPUT_LOGITS } from '@stet/backend';
import type { FakeFault } from '../fake/fake-options.js';
import { argmaxOf, forceToken } from '../fake/toy-model.js';

/** A bug planted on purpose: a simulator that does not find it is no use. */
export type Canary =
  /** The verifier commits the right tokens but leaves candidate K/V in place. */
  | 'keepsCandidateKv'
  /** The verifier answers with the candidate, so that a token which should be rolled back stays. */
  | 'keepsRolledBackToken';

export const CANARIES: readonly Canary[] = ['keepsCandidateKv', 'keepsRolledBackToken'];

/** The defect that the fake itself has. */
export function fakeFaultOf(canary: Canary | undefined): FakeFault {
  return canary === 'keepsCandidateKv' ? 'keepsCandidateKv' : 'none';
}

/** The backend with the canary's defect, if that is one of the results. */
export function withCanary(backend: Backend, canary: Canary | undefined): Pick<Backend, 'forward'> {
  if (canary !== 'keepsRolledBackToken') return backend;
  return {
    forward: async (step) => {
      const result = await backend.forward(step);
      if (step.canonical && result.canonical)
        repeatCandidates(step.canonical, result.canonical, backend.info.vocabSize);
      return result;
    },
  };
}

/** Row i answers with the token that row i + 1 of its sequence was fed. */
function repeatCandidates(batch: Batch, result: BatchResult, vocabSize: number): void {
  const firstRows = new Set(batch.rowStarts);
  let logitsRows = 0;
  batch.outputRows.forEach((row, output) => {
    const wantsLogits = batch.outputKinds[output] === OUTPUT_LOGITS;
    const logits = result.logits.subarray(logitsRows * vocabSize, (logitsRows + 1) * vocabSize);
    if (wantsLogits) logitsRows++;
    const candidate = batch.tokens[row + 1];
    if (firstRows.has(row + 1) || candidate === undefined) return;
    result.argmax[output] = candidate;
    if (wantsLogits && argmaxOf(logits) !== candidate) forceToken(logits, candidate);
  });
}
