import { assert, type StepResult } from '@stet/backend';
import {
  createFakeBackend,
  type FakeBackend,
  type FakeBackendOptions,
  type FakeLoadOptions,
  fakeLoad,
  fakeLogits,
  manualClock,
} from '@stet/testing';
import {
  dvr,
  type FinishReason,
  GREEDY,
  type PlannedStep,
  Sampler,
  Scheduler,
  type SchedulerConfig,
  type SequenceEvent,
  type SequenceRequest,
  type SequenceStats,
  type TokenLogprob,
  tokenLogprob,
} from '../src/index.js';

export interface RigOptions {
  readonly fake?: FakeBackendOptions;
  readonly load?: FakeLoadOptions;
  readonly config?: Partial<SchedulerConfig>;
}

/** What became of one request. */
export interface Outcome {
  readonly tokens: number[];
  readonly logprobs: TokenLogprob[];
  readonly events: SequenceEvent[];
  /** Candidates shown and not withdrawn, if provisional events were asked for. */
  provisional: number[];
  reason?: FinishReason;
  stats?: SequenceStats;
}

/**
 * A scheduler on a FakeBackend. After every step it checks all invariants, and it fills every free block with garbage,
 * so that reading a block that was given back changes the answer.
 */
export class Rig {
  readonly scheduler: Scheduler;
  readonly backend: FakeBackend;
  readonly clock = manualClock();
  readonly outcomes = new Map<string, Outcome>();

  private constructor(backend: FakeBackend, config: Partial<SchedulerConfig>) {
    this.backend = backend;
    this.scheduler = new Scheduler({ policy: dvr(), ...backend.info, ...config });
  }

  static async create({ fake = {}, load = {}, config = {} }: RigOptions = {}): Promise<Rig> {
    return new Rig(await createFakeBackend(fake)(fakeLoad({ blockSize: 4, ...load })), config);
  }

  add(request: SequenceRequest): void {
    this.outcomes.set(request.id, { tokens: [], logprobs: [], events: [], provisional: [] });
    this.scheduler.add(request, this.clock.now());
    this.scheduler.check();
  }

  outcome(id: string): Outcome {
    const outcome = this.outcomes.get(id);
    assert(outcome, `no outcome of ${id}`);
    return outcome;
  }

  /** One step; `between` runs while the backend has done its work and the result is not yet applied. */
  async step(between?: (planned: PlannedStep) => void): Promise<boolean> {
    const planned = this.scheduler.plan(this.clock.now());
    this.scheduler.check();
    if (!planned) return false;
    const result: StepResult = await this.backend.forward(planned.step);
    between?.(planned);
    this.clock.advance(1);
    this.note(this.scheduler.apply(planned, result, this.clock.now()));
    this.scheduler.check();
    this.poisonFreeBlocks();
    return true;
  }

  /** Steps until no work is left. `before` runs before each step, `between` as in `step`. */
  async run(between?: (planned: PlannedStep) => void, before?: (stepIndex: number) => void): Promise<void> {
    for (let steps = 0; this.scheduler.hasWork; steps++) {
      before?.(steps);
      if (!this.scheduler.hasWork) break;
      assert(steps < 5000, 'work is left after 5000 steps');
      assert(await this.step(between), 'there is work but nothing was planned');
    }
  }

  note(events: readonly SequenceEvent[]): void {
    for (const event of events) noteEvent(this.outcome(event.id), event);
  }

  /** Nothing is held any more. */
  checkIdle(): void {
    const { kv, running, waiting } = this.scheduler.stats();
    assert(running === 0 && waiting === 0, `${running} running and ${waiting} waiting sequences are left`);
    assert(kv.held === 0 && kv.free + kv.cached === kv.total, `${kv.held} blocks leaked`);
  }

  private poisonFreeBlocks(): void {
    const free: number[] = [];
    for (let block = 1; block < this.backend.info.blockCount; block++)
      if (this.scheduler.isFree(block)) free.push(block);
    this.backend.poison(free);
  }
}

/** Notes an event and checks that commits are adjacent, provisional tokens agree with them, and nothing follows the end. */
function noteEvent(outcome: Outcome, event: SequenceEvent): void {
  assert(outcome.reason === undefined, `an event of ${event.id} after its end`);
  outcome.events.push(event);
  switch (event.kind) {
    case 'commit':
      assert(
        event.from === outcome.tokens.length,
        `commit of ${event.id} from ${event.from}, expected ${outcome.tokens.length}`,
      );
      outcome.tokens.push(...event.tokens);
      outcome.logprobs.push(...(event.logprobs ?? []));
      outcome.provisional = outcome.provisional.slice(event.tokens.length);
      return;
    case 'provisional':
      assert(
        event.from === outcome.tokens.length + outcome.provisional.length,
        `provisional tokens of ${event.id} leave a gap`,
      );
      outcome.provisional.push(...event.tokens);
      return;
    case 'rollback':
      assert(event.to >= outcome.tokens.length, `rollback of ${event.id} into its committed tokens`);
      outcome.provisional.length = event.to - outcome.tokens.length;
      return;
    case 'finish':
      outcome.reason = event.reason;
      outcome.stats = event.stats;
  }
}

let nextId = 0;

export function request(options: Partial<SequenceRequest> & { prompt?: readonly number[] } = {}): SequenceRequest {
  const { prompt = [1, 2, 3], ...rest } = options;
  return {
    id: `r${nextId++}`,
    kind: 'deterministic',
    promptTokens: Int32Array.from(prompt),
    maxTokens: 20,
    sampling: GREEDY,
    seed: 7,
    stopTokens: new Set(),
    priority: 0,
    provisional: false,
    ...rest,
  };
}

/** The answer a deterministic request must get, computed without blocks, batches or schedules. */
export function oracle(
  request: SequenceRequest,
  fake: FakeBackendOptions = {},
): { tokens: number[]; logprobs: TokenLogprob[]; reason: FinishReason } {
  const sampler = new Sampler(64);
  const context = Array.from(request.promptTokens);
  const tokens: number[] = [];
  const logprobs: TokenLogprob[] = [];
  const counts = new Map<number, number>();
  let state = request.stop?.initial;
  for (;;) {
    const logits = fakeLogits(context, fake);
    const history = { prompt: new Set(request.promptTokens), output: counts };
    const token = sampler.sample(logits, request.sampling, request.seed, tokens.length, history);
    if (request.topLogprobs !== undefined) logprobs.push(tokenLogprob(logits, token, request.topLogprobs));
    tokens.push(token);
    context.push(token);
    counts.set(token, (counts.get(token) ?? 0) + 1);
    state = request.stop?.next(state, token);
    if (request.stopTokens.has(token) || request.stop?.matched(state)) return { tokens, logprobs, reason: 'stop' };
    if (tokens.length === request.maxTokens) return { tokens, logprobs, reason: 'length' };
  }
}

/** Runs requests together and throws unless every deterministic one gets its oracle's answer, log-probability bits included. */
export function checkAnswers(rig: Rig, requests: readonly SequenceRequest[], fake: FakeBackendOptions = {}): void {
  for (const one of requests) {
    if (one.kind === 'ordinary') continue;
    const want = oracle(one, fake);
    const got = rig.outcome(one.id);
    assert(
      JSON.stringify(got.tokens) === JSON.stringify(want.tokens),
      `${one.id}: got ${got.tokens}, expected ${want.tokens}`,
    );
    assert(got.reason === want.reason, `${one.id} ended by ${got.reason}, expected ${want.reason}`);
    assert(sameBits(got.logprobs, want.logprobs), `${one.id}: log-probabilities differ`);
  }
}

export async function answer(options: RigOptions, requests: readonly SequenceRequest[]): Promise<Rig> {
  const rig = await Rig.create(options);
  for (const one of requests) rig.add(one);
  await rig.run();
  checkAnswers(rig, requests, options.fake);
  rig.checkIdle();
  return rig;
}

/** Equal tokens and equal f64 bits: JSON prints an f64 so that it reads back as the same bits. */
export function sameBits(a: readonly TokenLogprob[], b: readonly TokenLogprob[]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
