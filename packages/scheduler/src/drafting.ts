import type { DraftSource } from './drafter.js';
import type { Sequence } from './sequence.js';

/** Guesses in a row that may fail before drafting rests. */
const PATIENCE = 4;
/** Output tokens that pass before a rested drafter is tried again. */
const REST_TOKENS = 16;

/** One sequence's drafter, and whether its guesses have lately been worth their rows. */
export class Drafting {
  private readonly source: DraftSource;
  private credit = PATIENCE;
  private restsUntil = 0;

  constructor(source: DraftSource) {
    this.source = source;
  }

  /** Gives a sequence without candidates some that its drafter guesses, up to one that would end the output. */
  fill(sequence: Sequence, maxTokens: number, nowMs: number): void {
    if (sequence.candidateCount > 0 || sequence.committedCount < this.restsUntil) return;
    const room = Math.min(maxTokens, sequence.request.maxTokens - sequence.committedCount);
    for (const token of this.source.propose(sequence.settledTokens, room)) {
      sequence.pushCandidate(token, nowMs);
      sequence.draftedCount++;
      if (sequence.ending) return;
    }
  }

  /** How many of a guess were right. */
  learn(accepted: number, sequence: Sequence): void {
    this.credit = Math.min(PATIENCE, this.credit - 1 + accepted);
    if (this.credit > 0) return;
    this.credit = 1;
    this.restsUntil = sequence.committedCount + REST_TOKENS;
  }
}
