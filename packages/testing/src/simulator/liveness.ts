import { must } from './failure.js';
import type { RequestRecord } from './request-record.js';
import { longestSequence, type Swarm } from './swarm.js';

/** What a request has waited through since its own last progress. */
interface Wait {
  /** Number of arrival. */
  readonly order: number;
  steps: number;
  /** Steps that it may wait: as if all that is open were served one after another before it. */
  allowedSteps: number;
  /** It has had rows, and nobody has lost blocks since: it runs. */
  isResident: boolean;
}

/** The first of all in service order. */
interface Head {
  readonly record: RequestRecord;
  /** Requests from this number of arrival on came while it was the first. */
  readonly since: number;
  /** It runs; known when it had rows, or when one that came later was admitted, which is behind it. */
  runs: boolean;
  stepsWithoutRow: number;
}

/**
 * Nobody starves. Three bounds, checked after every step, for requests that are open, not paused and wait for no sibling:
 * - some commit comes soon;
 * - each one waits no longer for its next token than all open work takes, one request after another;
 * - the first in service order, once it runs, has rows again and again, before each of the others had them twice. Who is
 *   not the first will be.
 */
export class LivenessWatch {
  private readonly swarm: Swarm;
  private readonly waits = new Map<RequestRecord, Wait>();
  private readonly stepsPerToken: number;
  private head: Head | undefined;
  private arrivals = 0;
  private idleSteps = 0;
  private preemptions = 0;

  constructor(swarm: Swarm) {
    this.swarm = swarm;
    const { fastBudget, canonicalBudget, prefillBudget } = swarm.limits;
    const windowTokens = swarm.canonicalShape?.windowTokens ?? swarm.maxRows;
    const chunk = Math.min(fastBudget, canonicalBudget, prefillBudget, windowTokens);
    const window = Math.max(...swarm.policies.map((policy) => policy.mostCandidates));
    this.stepsPerToken = window + 2 + Math.ceil(longestSequence(swarm) / chunk);
  }

  arrived(record: RequestRecord): void {
    const cost = this.costOf(record);
    for (const wait of this.waits.values()) wait.allowedSteps += cost;
    this.waits.set(record, { order: this.arrivals++, steps: 0, allowedSteps: 0, isResident: false });
    this.progressed(record);
  }

  /** It got tokens, or its wait begins anew because it was disturbed. */
  progressed(record: RequestRecord): void {
    this.idleSteps = 0;
    const wait = this.waits.get(record)!;
    wait.steps = 0;
    wait.allowedSteps = 50;
    for (const other of this.waits.keys()) wait.allowedSteps += this.costOf(other);
  }

  ended(record: RequestRecord): void {
    this.idleSteps = 0;
    this.waits.delete(record);
  }

  /** A sequence lost its blocks by order of the simulator: all wait for it a little longer. */
  preempted(record: RequestRecord): void {
    this.progressed(record);
    for (const wait of this.waits.values()) wait.allowedSteps += this.stepsPerToken;
  }

  /** A step was planned. `served` have rows in it; `preemptions` were counted so far. */
  planned(served: readonly RequestRecord[], preemptions: number): void {
    if (preemptions > this.preemptions) {
      for (const wait of this.waits.values()) wait.isResident = false;
      this.head = undefined;
    }
    this.preemptions = preemptions;
    this.checkHead(served);
    for (const record of served) this.waits.get(record)!.isResident = true;
  }

  /** A step was applied. */
  stepped(): void {
    const open = [...this.waits].filter(([record]) => record.mayRun);
    if (open.length === 0) return;
    const limit = 50 + (open.length + 1) * this.stepsPerToken;
    must(++this.idleSteps <= limit, `${this.idleSteps} steps without any commit, with ${open.length} requests open`);
    for (const [record, wait] of open) {
      must(++wait.steps <= wait.allowedSteps, `starves: no token for ${wait.steps} steps`, record.id);
    }
  }

  private checkHead(served: readonly RequestRecord[]): void {
    const first = this.first();
    if (!first) return;
    if (this.head?.record !== first) {
      const runs = this.waits.get(first)!.isResident;
      this.head = { record: first, since: this.arrivals, runs, stepsWithoutRow: 0 };
    }
    const { head } = this;
    const isBehind = ({ order, isResident }: Wait) => !isResident && order >= head.since;
    head.runs ||= served.some((record) => record === first || isBehind(this.waits.get(record)!));
    head.stepsWithoutRow = served.includes(first) || !head.runs ? 0 : head.stepsWithoutRow + 1;
    const { limits, requestCount } = this.swarm;
    const limit = 2 * Math.min(limits.maxRunning, requestCount) + 8;
    must(
      head.stepsWithoutRow <= limit,
      `starves: it is the first and has had no row for ${head.stepsWithoutRow} steps`,
      first.id,
    );
  }

  private first(): RequestRecord | undefined {
    let first: RequestRecord | undefined;
    for (const record of this.waits.keys()) {
      if (record.mayRun && (!first || this.compare(record, first) < 0)) first = record;
    }
    return first;
  }

  /** Service order: a step of priority is worth ten seconds of arrival; then deterministic first, then order of arrival. */
  private compare(a: RequestRecord, b: RequestRecord): number {
    const kindRank = (record: RequestRecord) => (record.simulated.request.kind === 'deterministic' ? 0 : 1);
    const byOrder = this.waits.get(a)!.order - this.waits.get(b)!.order;
    return serviceMs(a) - serviceMs(b) || kindRank(a) - kindRank(b) || byOrder;
  }

  private costOf(record: RequestRecord): number {
    return record.simulated.request.maxTokens * this.stepsPerToken;
  }
}

function serviceMs({ arrivedMs, simulated }: RequestRecord): number {
  return arrivedMs - simulated.request.priority * 10_000;
}
