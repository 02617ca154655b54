import { assertNever } from '@stet/backend';
import type { FinishReason, SequenceEvent, TokenLogprob } from '@stet/scheduler';
import { ExpectedAnswer, type OracleModel } from './expected-answer.js';
import { must } from './failure.js';
import type { SimulatedRequest } from './simulated-request.js';

/**
 * What is known of one request: its answer so far, held against the oracle's at every commit, and its candidates,
 * counted from the results of the backend, held against the scheduler's counters at the end.
 */
export class RequestRecord {
  readonly simulated: SimulatedRequest;
  readonly answer: ExpectedAnswer;
  readonly arrivedMs: number;
  readonly vocabSize: number;
  reason: FinishReason | undefined;
  paused = false;
  /** The open request whose prefill this one waits for, if it does. */
  waitsFor: () => RequestRecord | undefined = () => undefined;
  /** Times the simulator took its blocks, or its device, as far as it knows. */
  preemptionsAsked = 0;
  /** Tokens that the fast schedule gave and no window has verified, in the epoch of the sequence. */
  candidates: number[] = [];
  private epoch = 0;
  private provisional: number[] = [];
  private drafted = 0;
  private readonly counted = { windows: 0, rollbacks: 0, recomputedTokens: 0, draftedTokens: 0, acceptedTokens: 0 };

  constructor(simulated: SimulatedRequest, model: OracleModel, arrivedMs: number) {
    this.simulated = simulated;
    this.answer = new ExpectedAnswer(simulated, model);
    this.arrivedMs = arrivedMs;
    this.vocabSize = model.vocabSize;
  }

  get id(): string {
    return this.simulated.request.id;
  }

  get isOpen(): boolean {
    return this.reason === undefined;
  }

  get mayRun(): boolean {
    const sibling = this.waitsFor();
    return !this.paused && (sibling === undefined || sibling.paused || sibling.answer.output.length > 0);
  }

  /** Provisional tokens that are neither committed nor withdrawn. */
  get shownCount(): number {
    return this.provisional.length;
  }

  /** A sequence whose blocks were taken since has dropped its candidates. */
  enterEpoch(epoch: number): void {
    if (epoch === this.epoch) return;
    this.epoch = epoch;
    this.candidates = [];
    this.drafted = 0;
  }

  /** A drafter guessed these candidates. They are verified at once, or in part, and the rest is forgotten. */
  draft(tokens: number[]): void {
    this.candidates = tokens;
    this.drafted = tokens.length;
  }

  note(event: SequenceEvent, nowMs: number): void {
    this.must(this.isOpen, `a ${event.kind} event after the end`);
    switch (event.kind) {
      case 'commit':
        this.noteCommit(event.from, event.tokens, event.logprobs);
        break;
      case 'promptLogprobs':
        must(false, `${event.id} is told of its prompt and never asked`);
        break;
      case 'provisional':
        this.noteProvisional(event.from, event.tokens);
        break;
      case 'rollback':
        this.noteRollback(event.to);
        break;
      case 'finish':
        this.noteFinish(event, nowMs);
        break;
      default:
        assertNever(event);
    }
  }

  private noteCommit(from: number, tokens: readonly number[], logprobs: readonly TokenLogprob[] | undefined): void {
    const { output } = this.answer;
    this.must(tokens.length > 0, 'an empty commit');
    this.must(from === output.length, `a commit from output index ${from}, expected ${output.length}`);
    this.must(
      logprobs === undefined || logprobs.length === tokens.length,
      'log-probabilities and tokens differ in number',
    );
    const shown = Math.min(tokens.length, this.provisional.length);
    for (let i = 0; i < shown; i++) {
      this.must(tokens[i] === this.provisional[i], `output index ${from + i}: a provisional token changed unannounced`);
    }
    this.provisional = this.provisional.slice(tokens.length);
    tokens.forEach((token, i) => {
      this.answer.accept(token, logprobs?.[i]);
    });
    this.countWindow(tokens);
  }

  /** Each pass over candidates is a window; from the first one that differs all are recomputed. */
  private countWindow(tokens: readonly number[]): void {
    const { candidates, counted, drafted } = this;
    if (candidates.length === 0) return;
    const compared = Math.min(tokens.length, candidates.length);
    let matched = 0;
    while (matched < compared && tokens[matched] === candidates[matched]) matched++;
    const isMismatch = matched < compared;
    this.candidates = isMismatch || drafted > 0 ? [] : candidates.slice(compared);
    this.drafted = 0;
    if (drafted > 0) {
      counted.draftedTokens += drafted;
      counted.acceptedTokens += matched;
    }
    if (this.simulated.request.kind === 'ordinary') return;
    counted.windows++;
    if (!isMismatch) return;
    counted.rollbacks++;
    counted.recomputedTokens += candidates.length - matched;
  }

  private noteProvisional(from: number, tokens: readonly number[]): void {
    this.must(this.simulated.request.provisional, 'provisional tokens that were not asked for');
    const next = this.answer.output.length + this.provisional.length;
    this.must(from === next, `provisional tokens from output index ${from}, expected ${next}`);
    this.provisional.push(...tokens);
    this.must(this.provisional.join() === this.candidates.join(), 'provisional tokens are not the candidates');
  }

  private noteRollback(to: number): void {
    const committed = this.answer.output.length;
    this.must(this.simulated.request.provisional, 'a rollback that was not asked for');
    this.must(
      to >= committed && to < committed + this.provisional.length,
      `a rollback to output index ${to}, but tokens ${committed} to ${committed + this.provisional.length} are provisional`,
    );
    this.provisional.length = to - committed;
  }

  private noteFinish(event: Extract<SequenceEvent, { kind: 'finish' }>, nowMs: number): void {
    const { reason, error, stats } = event;
    const { request } = this.simulated;
    this.reason = reason;
    this.must((error !== undefined) === (reason === 'error'), `ended by ${reason}, with ${error ? 'an' : 'no'} error`);
    if (reason === 'stop' || reason === 'length') {
      this.must(reason === this.answer.ending, `ended by ${reason}, expected ${this.answer.ending ?? 'more tokens'}`);
      this.must(this.provisional.length === 0, 'ended with provisional tokens that were never settled');
    }
    const { windows, rollbacks, recomputedTokens, draftedTokens, acceptedTokens } = stats;
    const counters = { windows, rollbacks, recomputedTokens, draftedTokens, acceptedTokens };
    this.mustEqual(counters, this.counted, 'counters');
    const { queueMs, prefillMs, decodeMs } = stats;
    const counts = { promptTokens: stats.promptTokens, outputTokens: stats.outputTokens };
    const expected = { promptTokens: request.promptTokens.length, outputTokens: this.answer.output.length };
    this.mustEqual(counts, expected, 'counts');
    this.mustEqual([queueMs + prefillMs + decodeMs], [nowMs - this.arrivedMs], 'time from arrival to end');
    this.must(Math.min(queueMs, prefillMs, decodeMs) >= 0, 'a negative time');
    this.must(stats.cachedTokens < request.promptTokens.length, 'the whole prompt came from the cache');
    this.must(stats.preemptions >= this.preemptionsAsked, 'a preemption was not counted');
  }

  private must(condition: unknown, message: string): asserts condition {
    must(condition, message, this.id);
  }

  private mustEqual(got: object, expected: object, what: string): void {
    const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
    this.must(a === b, `${what}: got ${a}, expected ${b}`);
  }
}
