import { must } from './failure.js';
import type { RequestRecord } from './request-record.js';
import { longestSequence, type Swarm } from './swarm.js';

/** What a request has waited through since its own last progress. */
interface Wait {
  steps: number;
  /** Steps that it may wait: as if all that is open were served one after another before it. */
  allowedSteps: number;
  /** Tokens that went to requests which come after it in service order. */
  overtakenTokens: number;
}

/**
 * Nobody starves. Three bounds, checked after every step, for requests that are open, not paused and wait for no sibling:
 * some commit comes soon; each one waits no longer than all open work takes, one request after another; and those served
 * after it get no more tokens meanwhile than the ones already running can still need.
 */
export class LivenessWatch {
  private readonly swarm: Swarm;
  private readonly waits = new Map<RequestRecord, Wait>();
  private readonly stepsPerToken: number;
  private idleSteps = 0;

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
    this.waits.set(record, { steps: 0, allowedSteps: 0, overtakenTokens: 0 });
    this.progressed(record);
  }

  /** It got tokens, or its wait begins anew because it was disturbed. */
  progressed(record: RequestRecord): void {
    this.idleSteps = 0;
    const wait = this.waits.get(record)!;
    wait.steps = 0;
    wait.overtakenTokens = 0;
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

  committed(record: RequestRecord, tokenCount: number): void {
    this.progressed(record);
    const { limits, longestOutput } = this.swarm;
    const limit = (Math.min(limits.maxRunning, this.swarm.requestCount) + 1) * longestOutput;
    for (const [other, wait] of this.waits) {
      if (!other.mayRun || !isBefore(other, record)) continue;
      wait.overtakenTokens += tokenCount;
      must(
        wait.overtakenTokens <= limit,
        `starves: ${wait.overtakenTokens} tokens went to later requests since its last one`,
        other.id,
      );
    }
  }

  stepped(): void {
    const open = [...this.waits].filter(([record]) => record.mayRun);
    if (open.length === 0) return;
    const limit = 50 + (open.length + 1) * this.stepsPerToken;
    must(++this.idleSteps <= limit, `${this.idleSteps} steps without any commit, with ${open.length} requests open`);
    for (const [record, wait] of open) {
      must(++wait.steps <= wait.allowedSteps, `starves: no token for ${wait.steps} steps`, record.id);
    }
  }

  private costOf(record: RequestRecord): number {
    return record.simulated.request.maxTokens * this.stepsPerToken;
  }
}

/** A step of priority is worth ten seconds of arrival. */
function isBefore(a: RequestRecord, b: RequestRecord): boolean {
  return serviceMs(a) < serviceMs(b);
}

function serviceMs({ arrivedMs, simulated }: RequestRecord): number {
  return arrivedMs - simulated.request.priority * 10_000;
}
