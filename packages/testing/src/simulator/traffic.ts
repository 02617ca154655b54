import type { SeededRandom } from '../random.js';
import { refusedRequest } from './refusals.js';
import type { RequestRecord } from './request-record.js';
import { RequestSource } from './request-source.js';
import type { SimulatedRequest } from './simulated-request.js';
import type { World } from './world.js';

/** Times a request is sent again while faults still happen. */
const MOST_RETRIES = 3;

/** Brings the requests of a run: when they come, which are refused, and those that are sent again after an error. */
export class Traffic {
  private readonly world: World;
  private readonly random: SeededRandom;
  private readonly source: RequestSource;
  /** Refused for a full queue, or to be sent again. */
  private readonly backlog: SimulatedRequest[] = [];
  /** Failed too often: sent again when no more faults happen. */
  private readonly postponed: SimulatedRequest[] = [];

  constructor(world: World, random: SeededRandom) {
    this.world = world;
    this.random = random;
    this.source = new RequestSource(world.swarm, random.fork(1));
    world.onEnd = (record) => this.afterEnd(record);
  }

  get isOver(): boolean {
    return this.source.left === 0 && this.backlog.length === 0;
  }

  /** Adds what arrives now. */
  arrive(): void {
    for (let due = this.dueCount(); due > 0 && this.source.left > 0; due--) this.backlog.push(this.source.next());
    while (this.backlog.length > 0 && (!this.world.isFull || this.random.chance(0.1))) {
      const next = this.backlog[0]!;
      if (this.random.chance(this.world.swarm.chances.invalid)) this.addInvalid(next);
      if (this.world.add(next) === 'queueFull') return;
      if (next.attempt > 0) this.world.tally.retries++;
      this.backlog.shift();
    }
  }

  /** From now on nothing fails: what failed too often is sent again. */
  calm(): void {
    this.backlog.push(...this.postponed.splice(0));
  }

  private dueCount(): number {
    const { random, world } = this;
    switch (world.swarm.arrivals) {
      case 'flood':
        return this.backlog.length === 0 ? 20 : 0;
      case 'bursts':
        return random.chance(0.02) ? random.between(4, 25) : 0;
      case 'steady':
        return random.chance(0.3) ? 1 : 0;
      case 'trickle':
        return world.open.size === 0 ? 1 : 0;
    }
  }

  private addInvalid({ request }: SimulatedRequest): void {
    const openId = [...this.world.open.keys()][0];
    this.world.refuse(refusedRequest(request, this.world.swarm, this.random, openId));
    this.world.tally.refusals++;
  }

  private afterEnd(record: RequestRecord): void {
    const { request, attempt } = record.simulated;
    if (record.reason === 'stop' || record.reason === 'length') {
      this.source.addConversation([...request.promptTokens, ...record.answer.output]);
    }
    if (record.reason !== 'error') return;
    const id = this.random.chance(0.5) ? request.id : `${request.id}'`;
    const again = { ...record.simulated, request: { ...request, id }, attempt: attempt + 1 };
    (again.attempt > MOST_RETRIES ? this.postponed : this.backlog).push(again);
  }
}
