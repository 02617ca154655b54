import { assert } from '@stet/backend';

export interface LoopResult {
  /** Between one commit and the next of a measured answer, ms. */
  readonly gaps: readonly number[];
  /** From sending a measured request to its first commit, ms. */
  readonly firstTokens: readonly number[];
  /** Committed by all streams, from when the last measured stream began its first measured request to the last measured answer's end. */
  readonly tokensPerSecond: number;
}

/** Adds up one run of measured and unmeasured streams. Times are given, in ms. */
export class LoopMeter {
  readonly #answers: AnswerMeter[] = [];
  readonly #streamCount: number;
  readonly #answerCount: number;
  #ended = 0;
  #startMs: number | undefined;
  #endMs = 0;
  #tokens = 0;

  /** `streamCount`: measured streams; `answerCount`: answers to measure in all. */
  constructor(streamCount: number, answerCount: number) {
    this.#streamCount = streamCount;
    this.#answerCount = answerCount;
  }

  get isComplete(): boolean {
    return this.#ended >= this.#answerCount;
  }

  beginAnswer(nowMs: number): AnswerMeter {
    const answer = new AnswerMeter(nowMs);
    this.#answers.push(answer);
    if (this.#answers.length === this.#streamCount) this.#startMs = nowMs;
    return answer;
  }

  endAnswer(nowMs: number): void {
    this.#ended++;
    this.#endMs = nowMs;
  }

  /** Tokens of any stream. */
  commit(tokenCount: number): void {
    if (this.#startMs !== undefined && !this.isComplete) this.#tokens += tokenCount;
  }

  result(): LoopResult {
    assert(this.isComplete && this.#startMs !== undefined, 'a result before all answers have ended');
    return {
      gaps: this.#answers.flatMap(({ gaps }) => gaps),
      firstTokens: this.#answers.map(({ firstTokenMs }) => firstTokenMs),
      tokensPerSecond: (this.#tokens * 1000) / (this.#endMs - this.#startMs),
    };
  }
}

/** The commits of one answer as its reader sees them. */
export class AnswerMeter {
  readonly gaps: number[] = [];
  readonly #startMs: number;
  #firstMs: number | undefined;
  #lastMs = 0;

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  get firstTokenMs(): number {
    assert(this.#firstMs !== undefined, 'an answer without tokens');
    return this.#firstMs - this.#startMs;
  }

  commit(nowMs: number): void {
    if (this.#firstMs === undefined) this.#firstMs = nowMs;
    else this.gaps.push(nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }
}
