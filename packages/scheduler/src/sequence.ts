import { assert } from '@stet/backend';
import { KvTable } from '@stet/kv-cache';
import type { Drafting } from './drafting.js';
import type { SequenceStats } from './events.js';
import type { SequenceRequest, TokenHistory } from './request.js';

/**
 * One request on its way.
 *
 *     prompt tokens │ committed output │ candidates │
 *     ◄──── canonical K/V ────────────►◄ candidate K/V ►      the last token of the sequence has no K/V yet
 *
 * `committedCount` only grows; everything after it may vanish. An ordinary sequence commits each token as it is
 * decoded and never has candidates.
 */
export class Sequence {
  readonly request: SequenceRequest;
  /** Number of arrival; makes every order of sequences total. */
  readonly order: number;
  readonly arrivedMs: number;
  /** `prefill` lasts from admission to the next commit, so every stay in memory commits something. */
  phase: 'waiting' | 'prefill' | 'decode' | 'finished' = 'waiting';
  paused = false;
  /** Raised whenever blocks are lost: a result planned in an older epoch is not applied. */
  epoch = 0;
  readonly table: KvTable;
  /** Positions 0 .. canonicalCount - 1 have canonical K/V (deterministic sequences). */
  canonicalCount = 0;
  /** Positions 0 .. kvCount - 1 have K/V of some kind. */
  kvCount = 0;
  committedCount = 0;
  /** Rows of the prompt that have told the log-probability of the token after them, in order; all of them where nobody asks. */
  scoredCount: number;
  candidateCount = 0;
  /** When the oldest candidate came. */
  heldSinceMs = 0;
  /** Smallest distance of the best two fast logits among the candidates; infinite where none is known. */
  smallestGap = Number.POSITIVE_INFINITY;
  /** Candidates that a drafter guessed; they were not shown to the client. */
  draftedCount = 0;
  readonly drafting: Drafting | undefined;
  /** Step in which the sequence last had rows of prefill or verification: the longest unserved goes first. */
  servedStep = 0;
  private tokens: Int32Array;
  private count: number;
  private stopState: unknown;
  private readonly candidateStates: unknown[] = [];
  /** Occurrences in the output, candidates included; kept only where a penalty needs them. */
  private readonly counts: Map<number, number> | undefined;
  readonly history: TokenHistory | undefined;
  private readonly counters = {
    cachedTokens: 0,
    windows: 0,
    rollbacks: 0,
    recomputedTokens: 0,
    preemptions: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
  };
  private startedMs: number | undefined;
  private firstCommitMs: number | undefined;

  constructor(request: SequenceRequest, order: number, arrivedMs: number, drafting?: Drafting) {
    this.request = request;
    this.table = new KvTable(request.cacheScope);
    this.order = order;
    this.arrivedMs = arrivedMs;
    this.tokens = new Int32Array(request.promptTokens.length + Math.min(request.maxTokens, 64));
    this.tokens.set(request.promptTokens);
    this.count = request.promptTokens.length;
    this.scoredCount = request.promptLogprobs === undefined ? this.promptCount - 1 : 0;
    this.stopState = request.stop?.initial;
    this.drafting = drafting;
    const { frequencyPenalty, presencePenalty, repetitionPenalty } = request.sampling;
    if (frequencyPenalty === 0 && presencePenalty === 0 && repetitionPenalty === 1) return;
    this.counts = new Map();
    this.history = { prompt: Int32Array.from(new Set(request.promptTokens)), output: this.counts };
  }

  get id(): string {
    return this.request.id;
  }

  get kind(): 'deterministic' | 'ordinary' {
    return this.request.kind;
  }

  get promptCount(): number {
    return this.request.promptTokens.length;
  }

  /** Prompt and committed output. */
  get settledCount(): number {
    return this.promptCount + this.committedCount;
  }

  /** Every row of the prompt but the last has told what was asked of it. */
  get isScored(): boolean {
    return this.scoredCount === this.promptCount - 1;
  }

  /** Position of the first row of the settled tokens whose result is wanted: rows before it may come from the prefix cache. */
  get outputFrom(): number {
    return this.isScored ? this.settledCount - 1 : this.scoredCount;
  }

  /** All tokens, candidates included. */
  get tokenCount(): number {
    return this.count;
  }

  tokenAt(position: number): number {
    return this.tokens[position]!;
  }

  /** Settled tokens, (settledCount); valid until the next token. */
  get settledTokens(): Int32Array {
    return this.tokens.subarray(0, this.settledCount);
  }

  /** (candidateCount), oldest first; valid until the next token. */
  get candidates(): Int32Array {
    return this.tokens.subarray(this.settledCount, this.count);
  }

  /** Why the output would end with its last token, candidates included; undefined while it goes on. */
  get ending(): 'stop' | 'length' | undefined {
    const outputCount = this.committedCount + this.candidateCount;
    if (outputCount === 0) return undefined;
    const state = this.candidateCount > 0 ? this.candidateStates[this.candidateCount - 1] : this.stopState;
    if (this.request.stopTokens.has(this.tokens[this.count - 1]!)) return 'stop';
    if (this.request.stop?.matched(state)) return 'stop';
    return outputCount >= this.request.maxTokens ? 'length' : undefined;
  }

  pushCandidate(token: number, nowMs: number): void {
    if (this.candidateCount === 0) this.heldSinceMs = nowMs;
    const state = this.candidateCount > 0 ? this.candidateStates[this.candidateCount - 1] : this.stopState;
    this.candidateStates.push(this.request.stop?.next(state, token));
    this.push(token);
    this.candidateCount++;
  }

  /** The token becomes output for good. There must be no candidates. */
  commit(token: number): void {
    assert(this.candidateCount === 0, 'commit before candidates');
    this.push(token);
    this.committedCount++;
    this.stopState = this.request.stop?.next(this.stopState, token);
  }

  /** Takes all candidates off and returns them, oldest first. */
  takeCandidates(): Int32Array {
    const taken = this.tokens.slice(this.settledCount, this.count);
    for (const token of taken) this.counts?.set(token, this.counts.get(token)! - 1);
    this.count = this.settledCount;
    this.candidateCount = 0;
    this.draftedCount = 0;
    this.smallestGap = Number.POSITIVE_INFINITY;
    this.candidateStates.length = 0;
    return taken;
  }

  noteStarted(nowMs: number): void {
    this.startedMs ??= nowMs;
  }

  /** Positions found in the prefix cache at admission; those of a resumed sequence are its own and do not count. */
  noteCached(positionCount: number): void {
    if (this.startedMs === undefined) this.counters.cachedTokens = positionCount;
  }

  noteCommit(nowMs: number): void {
    this.firstCommitMs ??= nowMs;
  }

  noteWindow(recomputedTokens: number): void {
    this.counters.windows++;
    if (recomputedTokens > 0) this.counters.rollbacks++;
    this.counters.recomputedTokens += recomputedTokens;
  }

  noteDraft(draftedTokens: number, acceptedTokens: number): void {
    this.counters.draftedTokens += draftedTokens;
    this.counters.acceptedTokens += acceptedTokens;
  }

  notePreemption(): void {
    this.counters.preemptions++;
  }

  stats(nowMs: number): SequenceStats {
    const started = this.startedMs ?? nowMs;
    const first = this.firstCommitMs ?? nowMs;
    return {
      promptTokens: this.promptCount,
      outputTokens: this.committedCount,
      ...this.counters,
      queueMs: started - this.arrivedMs,
      prefillMs: first - started,
      decodeMs: nowMs - first,
    };
  }

  /** Throws unless the counts agree with each other and the table holds all K/V. */
  check(): void {
    const at = `sequence ${this.id}`;
    assert(this.count === this.settledCount + this.candidateCount, `${at}: tokens do not add up`);
    assert(this.candidateCount === this.candidateStates.length, `${at}: a stop state is missing`);
    assert(this.isScored || this.committedCount === 0, `${at}: output before the prompt is scored`);
    assert(this.canonicalCount <= this.settledCount, `${at}: canonical K/V past the settled tokens`);
    assert(this.kvCount <= this.count && this.canonicalCount <= this.kvCount, `${at}: K/V past the tokens`);
    assert(
      this.kind === 'deterministic' || this.candidateCount === this.draftedCount,
      `${at}: an ordinary sequence has candidates`,
    );
    assert(this.committedCount <= this.request.maxTokens, `${at}: more output than asked for`);
  }

  private push(token: number): void {
    if (this.count === this.tokens.length) {
      const grown = new Int32Array(Math.min(this.count * 2, this.promptCount + this.request.maxTokens));
      grown.set(this.tokens);
      this.tokens = grown;
    }
    this.tokens[this.count++] = token;
    this.counts?.set(token, (this.counts.get(token) ?? 0) + 1);
  }
}
