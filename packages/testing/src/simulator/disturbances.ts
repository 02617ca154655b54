import type { SeededRandom } from '../random.js';
import type { RequestRecord } from './request-record.js';
import type { World } from './world.js';

/** Does to requests what callers and operators may do at any time: abort, preempt, pause, resume, change the policy. */
export class Disturbances {
  private readonly world: World;
  private readonly random: SeededRandom;

  constructor(world: World, random: SeededRandom) {
    this.world = world;
    this.random = random;
  }

  /** What happens between two steps, or while one is in flight. */
  strike(): void {
    const { world, random } = this;
    const { chances, policies } = world.swarm;
    if (random.chance(chances.preempt))
      this.withOne(
        () => true,
        (record) => world.preempt(record),
      );
    if (random.chance(chances.abort))
      this.withOne(
        () => true,
        (record) => world.abort(record),
      );
    if (random.chance(chances.pause))
      this.withOne(
        (record) => !record.paused,
        (record) => world.pause(record),
      );
    if (random.chance(chances.resume))
      this.withOne(
        (record) => record.paused,
        (record) => world.resume(record),
      );
    if (random.chance(chances.policy)) world.setPolicy(random.pick(policies));
    this.passTime();
    world.check();
  }

  /** Nobody stays paused. */
  calm(): void {
    for (const record of this.world.open.values()) if (record.paused) this.world.resume(record);
  }

  private passTime(): void {
    const { world, random } = this;
    world.clock.advance(random.below(3));
    if (!random.chance(world.swarm.chances.clockJump)) return;
    world.clock.advance(random.pick([50, 5000, 1e8]));
    world.tally.clockJumps++;
  }

  private withOne(predicate: (record: RequestRecord) => boolean, act: (record: RequestRecord) => void): void {
    const records = [...this.world.open.values()].filter(predicate);
    if (records.length > 0) act(this.random.pick(records));
  }
}
