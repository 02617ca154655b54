import type { Backend } from '@stet/backend';
import { isStetError } from '@stet/backend';
import { type PlannedStep, Scheduler, type SequenceEvent } from '@stet/scheduler';
import type { FakeBackend } from '../fake/fake-backend.js';
import { manualClock } from '../manual-clock.js';
import { type SeededRandom, seededRandom } from '../random.js';
import { must } from './failure.js';
import { LivenessWatch } from './liveness.js';
import type { Refusal } from './refusals.js';
import { RequestRecord } from './request-record.js';
import type { SimulatedRequest } from './simulated-request.js';
import type { SimulatedPolicy, Swarm } from './swarm.js';
import { emptyTally } from './tally.js';
import type { Trace } from './trace.js';

/** The scheduler under test and all that is known about its requests. Everything that is done to it is checked here. */
export class World {
  readonly swarm: Swarm;
  readonly fake: FakeBackend;
  /** The fake, or the fake with a canary's defect. */
  readonly backend: Pick<Backend, 'forward'>;
  readonly scheduler: Scheduler;
  readonly trace: Trace;
  readonly tally = emptyTally();
  readonly clock = manualClock();
  /** Open requests in order of arrival. */
  readonly open = new Map<string, RequestRecord>();
  /** Called for every request that ended. */
  onEnd: (record: RequestRecord) => void = () => {};
  isInFlight = false;
  /** Aborted or preempted while the step is in flight: its result is not theirs. */
  readonly disturbed = new Set<string>();
  readonly liveness: LivenessWatch;
  private readonly ended = new Set<string>();
  private readonly policyRandom: SeededRandom;

  constructor(swarm: Swarm, fake: FakeBackend, backend: Pick<Backend, 'forward'>, trace: Trace) {
    this.swarm = swarm;
    this.fake = fake;
    this.backend = backend;
    this.trace = trace;
    this.policyRandom = seededRandom(swarm.modelSeed);
    this.liveness = new LivenessWatch(swarm);
    const policy = swarm.policies[0]!.create(this.policyRandom);
    const { limits, prefixCache } = swarm;
    const drafter = swarm.drafter?.create(this.policyRandom);
    this.scheduler = new Scheduler({ ...fake.info, policy, limits, prefixCache, ...(drafter && { drafter }) });
  }

  get nowMs(): number {
    return this.clock.now();
  }

  /** One more request would be refused. */
  get isFull(): boolean {
    return this.scheduler.stats().waiting >= this.swarm.limits.maxWaiting;
  }

  add(simulated: SimulatedRequest): 'added' | 'queueFull' {
    if (this.isFull) {
      this.refuse({ request: simulated.request, code: 'STET_ERR_QUEUE_FULL' });
      this.tally.queueFull++;
      return 'queueFull';
    }
    const { id, kind, after } = simulated.request;
    this.trace.write(`t=${this.nowMs} add ${id} ${kind}`);
    const record = new RequestRecord(simulated, this.swarm, this.nowMs);
    if (after !== undefined) record.waitsFor = () => this.open.get(after);
    this.scheduler.add(simulated.request, this.nowMs);
    this.open.set(id, record);
    this.ended.delete(id);
    this.liveness.arrived(record);
    this.tally.requests++;
    this.tally[kind]++;
    return 'added';
  }

  /** Adds a request that must be refused with the code given, changing nothing. */
  refuse({ request, code }: Refusal): void {
    const before = JSON.stringify(this.scheduler.stats());
    let refused: unknown;
    try {
      this.scheduler.add(request, this.nowMs);
    } catch (error) {
      refused = error;
    }
    this.trace.write(`t=${this.nowMs} refused ${request.id} ${code}`);
    must(isStetError(refused) && refused.code === code, `it was not refused with ${code}: ${refused}`, request.id);
    must(JSON.stringify(this.scheduler.stats()) === before, 'a refused request changed something', request.id);
  }

  abort(record: RequestRecord): void {
    const { running, waiting } = this.scheduler.stats();
    this.trace.write(`t=${this.nowMs} abort ${record.id}`);
    if (this.isInFlight) this.disturbed.add(record.id);
    const events = this.scheduler.abort(record.id, this.nowMs);
    this.note(events);
    must(record.reason === 'aborted', 'an abort did not end it at once', record.id);
    const after = this.scheduler.stats();
    must(after.running + after.waiting === running + waiting - 1, 'an aborted sequence is still there', record.id);
    if (after.waiting < waiting) this.tally.abortedWaiting++;
    else if (this.isInFlight) this.tally.abortedInFlight++;
    else this.tally.abortedBetween++;
    must(this.scheduler.abort(record.id, this.nowMs).length === 0, 'a second abort has an effect', record.id);
  }

  preempt(record: RequestRecord): void {
    const before = this.scheduler.stats();
    this.scheduler.preempt(record.id);
    const after = this.scheduler.stats();
    if (after.preemptions === before.preemptions) return;
    this.trace.write(`t=${this.nowMs} preempt ${record.id}`);
    must(after.waiting === before.waiting + 1, 'a preempted sequence does not wait', record.id);
    if (this.isInFlight) this.disturbed.add(record.id);
    record.preemptionsAsked++;
    this.liveness.preempted(record);
    this.tally.preemptionsAsked++;
  }

  /** The device goes away in the step, and every K/V row with it; nothing else may be lost. */
  loseDevice(planned: PlannedStep): void {
    const before = this.scheduler.stats();
    this.trace.write(`t=${this.nowMs} device lost`);
    const ids = new Set(planned.runs.map((run) => run.sequence.id));
    this.fake.poison(Array.from({ length: this.swarm.blockCount }, (_, block) => block));
    const events = this.scheduler.deviceLost(planned);
    this.isInFlight = false;
    for (const { kind, id } of events) must(kind === 'rollback', `a lost device caused a ${kind}`, id);
    this.note(events);
    const after = this.scheduler.stats();
    must(after.running === 0, `${after.running} run on a lost device`);
    must(after.waiting === before.running + before.waiting, 'a sequence was lost with its device');
    must(after.kv.free === after.kv.total, `${after.kv.total - after.kv.free} blocks outlived their device`);
    must(after.preemptions === before.preemptions + before.running, 'what a lost device stopped is not counted');
    for (const record of this.open.values()) {
      must(record.shownCount === 0, 'provisional tokens outlived their device', record.id);
      if (ids.has(record.id) && !this.disturbed.has(record.id)) record.preemptionsAsked++;
      this.liveness.preempted(record);
    }
    this.disturbed.clear();
    this.tally.deviceLosses++;
    this.tally.rebuiltSequences += before.running;
  }

  pause(record: RequestRecord): void {
    this.trace.write(`t=${this.nowMs} pause ${record.id}`);
    this.scheduler.pause(record.id);
    record.paused = true;
    this.tally.pauses++;
  }

  resume(record: RequestRecord): void {
    this.trace.write(`t=${this.nowMs} resume ${record.id}`);
    this.scheduler.resume(record.id);
    record.paused = false;
    this.liveness.progressed(record);
  }

  setPolicy(policy: SimulatedPolicy): void {
    this.trace.write(`t=${this.nowMs} policy ${policy.name}`);
    this.scheduler.setPolicy(policy.create(this.policyRandom));
    this.tally.policyChanges++;
  }

  /** Takes what the scheduler reported. */
  note(events: readonly SequenceEvent[]): void {
    for (const event of events) {
      this.trace.write(`t=${this.nowMs} ${JSON.stringify(event)}`);
      const record = this.open.get(event.id);
      must(
        record,
        `a ${event.kind} event ${this.ended.has(event.id) ? 'after the end' : 'of an unknown request'}`,
        event.id,
      );
      record.note(event, this.nowMs);
      if (event.kind === 'commit') {
        this.tally.committedTokens += event.tokens.length;
        this.liveness.progressed(record);
      }
      if (event.kind === 'finish') this.end(record);
    }
    for (const record of this.open.values())
      must(record.answer.ending === undefined, 'the answer is complete, but it has not ended', record.id);
  }

  /** Everything that must hold between any two calls of the scheduler. */
  check(): void {
    const { scheduler, open, tally } = this;
    scheduler.check();
    const { running, waiting, kv, committedTokens } = scheduler.stats();
    must(running + waiting === open.size, `${running} run and ${waiting} wait, but ${open.size} are open`);
    must(running <= this.swarm.limits.maxRunning, `${running} sequences run`);
    must(kv.total === this.swarm.blockCount - 1, `${kv.total} usable blocks`);
    must(
      kv.free + kv.cached + kv.held === kv.total,
      `${kv.free} + ${kv.cached} + ${kv.held} blocks are not ${kv.total}`,
    );
    must(
      committedTokens === tally.committedTokens,
      `${committedTokens} tokens counted, ${tally.committedTokens} committed`,
    );
    const isBusy = [...open.values()].some((record) => !record.paused);
    must(scheduler.hasWork === isBusy, `hasWork is ${scheduler.hasWork}`);
  }

  /** Nothing is open and nothing is held. */
  checkIdle(): void {
    const { running, waiting, kv } = this.scheduler.stats();
    must(this.open.size === 0, 'it never ended', [...this.open.keys()][0]);
    must(running === 0 && waiting === 0, `${running} run and ${waiting} wait at the end`);
    must(kv.held === 0, `${kv.held} blocks leaked`);
  }

  private end(record: RequestRecord): void {
    this.open.delete(record.id);
    this.ended.add(record.id);
    this.liveness.ended(record);
    if (record.reason === 'stop') this.tally.stopped++;
    if (record.reason === 'length') this.tally.reachedLength++;
    if (record.reason === 'error') this.tally.failedRequests++;
    this.onEnd(record);
  }
}
