import { assert, type BackendInfo, type Draw, type Drawn, type StepResult, StetError } from '@stet/backend';
import { KvCache, type KvCacheStats } from '@stet/kv-cache';
import { applyStep } from './apply.js';
import { BlockArena } from './block-arena.js';
import { checkRequest } from './check-request.js';
import type { Drafter } from './drafter.js';
import { Drafting } from './drafting.js';
import type { SequenceEvent } from './events.js';
import { resolveLimits, type SchedulerLimits } from './limits.js';
import { planStep } from './planner.js';
import type { StepOutcome, VerifyPolicy } from './policy.js';
import type { FinishReason, SequenceRequest } from './request.js';
import { Residency } from './residency.js';
import { Adjuster } from './sampling/adjust.js';
import { PortableSampler } from './sampling/portable-sampler.js';
import { Sequence } from './sequence.js';
import { StepDraws } from './step-draws.js';
import { type PlannedStep, StepDraft } from './step-plan.js';

export interface SchedulerConfig
  extends Pick<
    BackendInfo,
    'vocabSize' | 'contextLength' | 'blockSize' | 'blockCount' | 'maxRows' | 'canonical' | 'canonicalShape' | 'fast'
  > {
  readonly policy: VerifyPolicy;
  readonly limits?: Partial<SchedulerLimits>;
  /** Guesses for deterministic requests, and for ordinary ones where the fast schedule gives the canonical bits. */
  readonly drafter?: Drafter;
  /** `on` by default. */
  readonly prefixCache?: 'on' | 'off';
}

export interface SchedulerStats {
  readonly running: number;
  readonly waiting: number;
  readonly steps: number;
  readonly fastRows: number;
  readonly canonicalRows: number;
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  readonly preemptions: number;
  readonly committedTokens: number;
  readonly kv: KvCacheStats;
}

/**
 * Continuous batching with selective determinism. A step is `plan` → `backend.forward` → `draws` → `sampler.sample` →
 * `apply`; without the two before the last, `apply` draws the tokens itself. What is the scheduler's is synchronous and
 * knows no clock, device or text. One step may be in flight; requests may come and go meanwhile.
 */
export class Scheduler {
  private readonly config: SchedulerConfig;
  private readonly limits: SchedulerLimits;
  private readonly kv: KvCache;
  private readonly arena = new BlockArena();
  private readonly residency: Residency;
  private readonly draft: StepDraft;
  private readonly adjuster: Adjuster;
  private readonly sampler: PortableSampler;
  private readonly sequences = new Map<string, Sequence>();
  private readonly totals = {
    steps: 0,
    fastRows: 0,
    canonicalRows: 0,
    committedTokens: 0,
    windows: 0,
    rollbacks: 0,
    recomputedTokens: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
  };
  private readonly windowTokens: number;
  private policy: VerifyPolicy;
  private inFlight: PlannedStep | undefined;
  /** Of the step in flight, once they have been asked for. */
  private stepDraws: StepDraws | undefined;
  private events: SequenceEvent[] = [];
  private arrivals = 0;
  private plannedMs = 0;
  private prefillRows = 0;
  private lastStep: Omit<StepOutcome, 'elapsedMs'> | undefined;

  constructor(config: SchedulerConfig) {
    this.config = config;
    this.policy = config.policy;
    this.limits = resolveLimits(config.limits, config.maxRows, config.canonicalShape);
    this.windowTokens = config.canonicalShape?.windowTokens ?? 1;
    const { blockCount, blockSize, prefixCache = 'on' } = config;
    this.kv = new KvCache({ blockCount, blockSize, prefixCache });
    this.residency = new Residency(this.kv, this.arena, this.limits.maxRunning, this.windowTokens);
    const { fastBudget, canonicalBudget } = this.limits;
    this.draft = new StepDraft(this.kv, this.arena, { fast: fastBudget, canonical: canonicalBudget });
    this.adjuster = new Adjuster(config.vocabSize);
    this.sampler = new PortableSampler(config.vocabSize);
  }

  /** Throws BAD_REQUEST, CONTEXT_LENGTH, KV_CAPACITY, QUEUE_FULL or UNSUPPORTED; then nothing has changed. */
  add(request: SequenceRequest, nowMs: number): void {
    checkRequest(request, this.config, this.kv);
    if (this.sequences.has(request.id))
      throw new StetError('STET_ERR_DUPLICATE_ID', `a sequence with id ${request.id} is still open`);
    if (this.residency.waiting.length >= this.limits.maxWaiting) {
      throw new StetError(
        'STET_ERR_QUEUE_FULL',
        `${this.residency.waiting.length} requests are waiting, which is the limit`,
      );
    }
    const sequence = new Sequence(request, this.arrivals++, nowMs, this.draftingFor(request));
    this.sequences.set(request.id, sequence);
    this.residency.waiting.add(sequence);
  }

  /** Ends a sequence and frees its blocks at once, also while a step is in flight. Empty for an id that is not open. */
  abort(id: string, nowMs: number): SequenceEvent[] {
    const sequence = this.sequences.get(id);
    if (!sequence) return [];
    // A preemption may have left a rollback to report: it must not come after the end.
    const events = this.events.filter((event) => event.id === id);
    this.events = this.events.filter((event) => event.id !== id);
    this.finish(sequence, 'aborted', nowMs, events);
    return events;
  }

  /** A paused sequence takes part in no step; it keeps its blocks until somebody needs them. */
  pause(id: string): void {
    const sequence = this.sequences.get(id);
    if (sequence) sequence.paused = true;
  }

  resume(id: string): void {
    const sequence = this.sequences.get(id);
    if (sequence) sequence.paused = false;
  }

  /** Takes a running sequence's blocks as a shortage would; for tests and operators. */
  preempt(id: string): void {
    const sequence = this.sequences.get(id);
    if (sequence && sequence.phase !== 'waiting') this.residency.preempt(sequence, this.events);
  }

  /** Legal at any time: no choice of a policy changes a bit. */
  setPolicy(policy: VerifyPolicy): void {
    this.policy = policy;
  }

  /** Some sequence can go on. */
  get hasWork(): boolean {
    const open = (sequence: Sequence) => !sequence.paused;
    return this.residency.running.some(open) || this.residency.waiting.some(open);
  }

  /** The next step for the backend, or undefined when nothing can run. */
  plan(nowMs: number): PlannedStep | undefined {
    assert(!this.inFlight, 'plan while a step is in flight');
    this.observeLastStep(nowMs);
    const { residency, draft, policy, limits } = this;
    const shape = this.config.canonicalShape;
    this.inFlight = planStep({ residency, draft, policy, limits, shape }, this.totals.steps + 1, nowMs, this.events);
    if (!this.inFlight) return undefined;
    this.totals.steps++;
    const { fastRows, canonicalRows } = rowCounts(this.inFlight);
    this.totals.fastRows += fastRows;
    this.totals.canonicalRows += canonicalRows;
    this.plannedMs = nowMs;
    this.prefillRows = prefillRows(this.inFlight);
    return this.inFlight;
  }

  /** The draws that the result of the step in flight calls for, to be answered by a sampler; may be empty. */
  draws(planned: PlannedStep, result: StepResult): readonly Draw[] {
    assert(this.inFlight === planned, 'the step is not the one in flight');
    this.stepDraws = new StepDraws(planned, result, this.config.vocabSize, this.adjuster);
    return this.stepDraws.draws;
  }

  /**
   * Compares, commits, rolls back, finishes and frees. `drawn`: the answers to `draws`; without them the scheduler draws
   * the tokens itself, the same ones.
   */
  apply(planned: PlannedStep, result: StepResult, nowMs: number, drawn?: readonly Drawn[]): SequenceEvent[] {
    const answers = drawn ?? this.sampler.sample(this.draws(planned, result));
    const draws = this.stepDraws;
    assert(draws && answers.length === draws.draws.length, 'answers to other draws');
    this.land(planned);
    const { kv, events, windowTokens } = this;
    const verdicts = { verifiedCandidates: 0, mismatches: 0 };
    const finish = (sequence: Sequence, reason: FinishReason) => this.finish(sequence, reason, nowMs, events);
    applyStep(planned, result, { kv, draws, drawn: answers, windowTokens, nowMs, events, verdicts, finish });
    const ready = this.takeEvents();
    const committedTokens = ready.reduce((sum, event) => sum + (event.kind === 'commit' ? event.tokens.length : 0), 0);
    const { prefillRows } = this;
    this.lastStep = this.hasWork ? { ...rowCounts(planned), prefillRows, committedTokens, ...verdicts } : undefined;
    return ready;
  }

  /** The step failed: its requests end with the error, the others go on. */
  fail(planned: PlannedStep, error: StetError, nowMs: number): SequenceEvent[] {
    this.land(planned);
    for (const run of planned.runs) {
      if (run.epoch === run.sequence.epoch) this.finish(run.sequence, 'error', nowMs, this.events, error);
    }
    return this.takeEvents();
  }

  /**
   * The device went away in the step, and all K/V with it; nothing else is lost. The step has no effect. What ran waits
   * in its old order and comes back by prefill, as after a preemption, on blocks that are all free. Returns the rollbacks
   * of candidates that were shown. The next step is for another backend of the same sizes.
   */
  deviceLost(planned: PlannedStep): SequenceEvent[] {
    this.land(planned);
    this.residency.preemptAll(this.events);
    return this.takeEvents();
  }

  /** Every open sequence ends with the error. No step may be in flight. */
  failAll(error: StetError, nowMs: number): SequenceEvent[] {
    assert(!this.inFlight, 'all sequences are failed while a step is in flight');
    for (const sequence of [...this.sequences.values()]) this.finish(sequence, 'error', nowMs, this.events, error);
    return this.takeEvents();
  }

  stats(): SchedulerStats {
    const live = { ...this.totals };
    for (const sequence of this.sequences.values()) addCounters(live, sequence.stats(0));
    const { running, waiting, preemptions } = this.residency;
    return { ...live, running: running.length, waiting: waiting.length, preemptions, kv: this.kv.stats() };
  }

  /** Throws unless blocks, queues and sequences agree; linear, for tests and simulation. */
  check(): void {
    const { running, waiting } = this.residency;
    assert(running.length + waiting.length === this.sequences.size, 'an open sequence is in no queue');
    this.kv.check([...running].map((sequence) => sequence.table));
    for (const sequence of waiting) assert(sequence.table.length === 0, `waiting sequence ${sequence.id} holds blocks`);
    for (const sequence of running) sequence.check();
    // One more table may be the zeros of scratch windows.
    assert(this.arena.tableCount <= running.length + 1, 'the arena keeps tables of sequences that hold no blocks');
  }

  /** True for a block whose contents nobody may read again; tests fill those with garbage. */
  isFree(block: number): boolean {
    return this.kv.isFree(block);
  }

  private draftingFor(request: SequenceRequest): Drafting | undefined {
    const { drafter, fast } = this.config;
    const canVerify = request.kind === 'deterministic' || fast === 'canonical';
    return drafter && canVerify ? new Drafting(drafter.open()) : undefined;
  }

  /** A step's time ends where the next one begins, so that drawing and reporting its tokens count; without work, nobody knows. */
  private observeLastStep(nowMs: number): void {
    if (this.lastStep) this.policy.observe?.({ ...this.lastStep, elapsedMs: nowMs - this.plannedMs });
    this.lastStep = undefined;
  }

  private land(planned: PlannedStep): void {
    assert(this.inFlight === planned, 'the step is not the one in flight');
    this.inFlight = undefined;
    this.stepDraws = undefined;
  }

  private takeEvents(): SequenceEvent[] {
    const { events } = this;
    this.events = [];
    for (const event of events) if (event.kind === 'commit') this.totals.committedTokens += event.tokens.length;
    return events;
  }

  private finish(
    sequence: Sequence,
    reason: FinishReason,
    nowMs: number,
    events: SequenceEvent[],
    error?: StetError,
  ): void {
    this.residency.remove(sequence);
    this.sequences.delete(sequence.id);
    const stats = sequence.stats(nowMs);
    addCounters(this.totals, stats);
    events.push({ kind: 'finish', id: sequence.id, reason, ...(error && { error }), stats });
  }
}

function rowCounts({ step }: PlannedStep): { fastRows: number; canonicalRows: number } {
  return { fastRows: step.fast?.tokens.length ?? 0, canonicalRows: step.canonical?.tokens.length ?? 0 };
}

function prefillRows({ runs }: PlannedStep): number {
  return runs.reduce((sum, run) => sum + (run.sequence.phase === 'prefill' ? run.rowCount : 0), 0);
}

interface Counters {
  windows: number;
  rollbacks: number;
  recomputedTokens: number;
  draftedTokens: number;
  acceptedTokens: number;
}

function addCounters(totals: Counters, more: Readonly<Counters>): void {
  totals.windows += more.windows;
  totals.rollbacks += more.rollbacks;
  totals.recomputedTokens += more.recomputedTokens;
  totals.draftedTokens += more.draftedTokens;
  totals.acceptedTokens += more.acceptedTokens;
}
