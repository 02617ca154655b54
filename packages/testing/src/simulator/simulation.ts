import { isStetError, type StepResult, StetError } from '@stet/backend';
import type { PlannedStep } from '@stet/scheduler';
import type { SeededRandom } from '../random.js';
import { checkPlannedStep } from './check-step.js';
import { Disturbances } from './disturbances.js';
import { must } from './failure.js';
import { noteCandidates } from './note-candidates.js';
import { Traffic } from './traffic.js';
import type { World } from './world.js';

/** Rounds of the storm after the last arrival. */
const STORM_TAIL = 30;
/** Rounds of the storm at most: some swarms undo work faster than it is done. The rest arrives in the calm. */
const LONGEST_STORM = 3000;

/**
 * One run: a storm of arrivals, disturbances and faults, and then a calm in which everything must end. Rules are
 * checked after every step; the first one that is broken ends the run as a `Violation`.
 */
export class Simulation {
  private readonly world: World;
  private readonly random: SeededRandom;
  private readonly traffic: Traffic;
  private readonly disturbances: Disturbances;
  private mood: 'storm' | 'calm' = 'storm';
  private fastRows = 0;
  private canonicalRows = 0;

  constructor(world: World, random: SeededRandom) {
    this.world = world;
    this.random = random.fork(1);
    this.traffic = new Traffic(world, random.fork(2));
    this.disturbances = new Disturbances(world, random.fork(3));
  }

  async run(): Promise<void> {
    const { world } = this;
    for (let rounds = 0, tail = 0; rounds < LONGEST_STORM && tail < STORM_TAIL; rounds++) {
      await this.round();
      if (this.traffic.isOver) tail++;
    }
    this.mood = 'calm';
    world.trace.write(`t=${world.nowMs} calm`);
    this.traffic.calm();
    this.disturbances.calm();
    do await this.round();
    while (world.scheduler.hasWork || !this.traffic.isOver);
    world.checkIdle();
    this.checkTotals();
  }

  /** Arrivals, disturbances and one step, if there is work for one. */
  private async round(): Promise<void> {
    const { world } = this;
    this.happen();
    const planned = world.scheduler.plan(world.nowMs);
    world.check();
    if (!planned) {
      must(!world.scheduler.hasWork, 'there is work, but nothing was planned');
      return;
    }
    this.notePlanned(planned);
    const { injectedMismatches } = world.fake;
    const result = await this.forward(planned);
    if (world.swarm.mismatchRate === 0)
      must(world.fake.injectedMismatches === injectedMismatches, 'a mismatch was injected');
    this.land(planned, result);
    world.isInFlight = false;
    world.disturbed.clear();
    world.check();
    world.liveness.stepped();
    this.poisonFreeBlocks();
  }

  private happen(): void {
    this.traffic.arrive();
    if (this.mood === 'storm') this.disturbances.strike();
    else this.world.clock.advance(1);
  }

  private notePlanned(planned: PlannedStep): void {
    const { world } = this;
    const { fast, canonical } = planned.step;
    world.tally.steps++;
    this.fastRows += fast?.tokens.length ?? 0;
    this.canonicalRows += canonical?.tokens.length ?? 0;
    const runs = planned.runs.map((run) => `${run.sequence.id}:${run.schedule[0]}${run.start}+${run.rowCount}`);
    world.trace.write(`t=${world.nowMs} step ${world.tally.steps}: ${runs.join(' ')}`);
    checkPlannedStep(planned, world.swarm, (id) => world.open.get(id)?.paused === false);
    const served = planned.runs.map((run) => world.open.get(run.sequence.id)!);
    world.liveness.planned(served, world.scheduler.stats().preemptions);
  }

  /** Runs the step; its result may fail or come late, and the world goes on meanwhile. */
  private async forward(planned: PlannedStep): Promise<StepResult | StetError> {
    const { world, random } = this;
    const { chances } = world.swarm;
    const isLate = this.mood === 'storm' && random.chance(chances.late);
    const fails = this.mood === 'storm' && random.chance(chances.failure);
    const code = this.losesDevice() ? 'STET_ERR_DEVICE_LOST' : fails ? 'STET_ERR_BACKEND_FAILED' : undefined;
    const error = code && new StetError(code, `the device failed in step ${world.tally.steps}`);
    if (error) world.fake.failNext(error);
    if (isLate) world.fake.hold();
    world.isInFlight = true;
    const settled = world.backend.forward(planned.step).catch((reason: unknown) => {
      if (error && reason === error) return error;
      throw reason;
    });
    // Marks the promise as handled: a violation in flight must not surface as an unhandled rejection too.
    settled.catch(() => {});
    for (let rounds = isLate ? random.between(2, 6) : 1; rounds > 0; rounds--) this.happen();
    if (isLate) world.tally.lateResults++;
    world.fake.release();
    return settled;
  }

  private land(planned: PlannedStep, result: StepResult | StetError): void {
    if (!isStetError(result)) this.apply(planned, result);
    else if (result.code === 'STET_ERR_DEVICE_LOST') this.loseDevice(planned);
    else this.fail(planned, result);
  }

  private apply(planned: PlannedStep, result: StepResult): void {
    const { world } = this;
    if (this.losesDevice()) {
      world.scheduler.draws(planned, result);
      this.loseDevice(planned);
      return;
    }
    noteCandidates(planned, result, (id) => (world.disturbed.has(id) ? undefined : world.open.get(id)));
    world.note(world.scheduler.apply(planned, result, world.nowMs));
  }

  /** Half of the losses come before a step's result, half after it. */
  private losesDevice(): boolean {
    return this.mood === 'storm' && this.random.chance(this.world.swarm.chances.deviceLoss / 2);
  }

  /** The world goes on until there is another one. */
  private loseDevice(planned: PlannedStep): void {
    this.world.loseDevice(planned);
    for (let rounds = this.random.below(5); rounds > 0; rounds--) this.happen();
  }

  /** The requests of the step end with the error, but for those that were disturbed meanwhile, and no others. */
  private fail(planned: PlannedStep, error: StetError): void {
    const { world } = this;
    const ids = planned.runs.map((run) => run.sequence.id).filter((id) => !world.disturbed.has(id));
    const expected = new Set(ids);
    world.tally.failedSteps++;
    const events = world.scheduler.fail(planned, error, world.nowMs);
    for (const event of events) {
      if (event.kind !== 'finish') continue;
      must(expected.delete(event.id), 'it ended by an error of a step that it had no part in', event.id);
      must(
        event.reason === 'error' && event.error === error,
        `it ended by ${event.reason}, not by the error`,
        event.id,
      );
    }
    must(expected.size === 0, 'it survived an error of its step', [...expected][0]);
    world.note(events);
  }

  private poisonFreeBlocks(): void {
    const { fake, scheduler } = this.world;
    const free: number[] = [];
    for (let block = 1; block < fake.info.blockCount; block++) if (scheduler.isFree(block)) free.push(block);
    fake.poison(free);
  }

  private checkTotals(): void {
    const { tally, scheduler, fake } = this.world;
    const stats = scheduler.stats();
    const rows = { steps: stats.steps, fastRows: stats.fastRows, canonicalRows: stats.canonicalRows };
    const expected = { steps: tally.steps, fastRows: this.fastRows, canonicalRows: this.canonicalRows };
    must(
      JSON.stringify(rows) === JSON.stringify(expected),
      `totals are ${JSON.stringify(rows)}, expected ${JSON.stringify(expected)}`,
    );
    const { windows, rollbacks, recomputedTokens, preemptions, draftedTokens, acceptedTokens } = stats;
    Object.assign(tally, { windows, rollbacks, recomputedTokens, preemptions, draftedTokens, acceptedTokens });
    tally.injectedMismatches = fake.injectedMismatches;
    tally.prefixHits = stats.kv.hits;
    tally.evictions = stats.kv.evictions;
    const wrong = tally.injectedMismatches + draftedTokens - acceptedTokens;
    must(rollbacks <= wrong, `${rollbacks} rollbacks, but only ${wrong} candidates were wrong`);
  }
}
