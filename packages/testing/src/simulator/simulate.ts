import { createFakeBackend } from '../fake/create-fake-backend.js';
import { fakeLoad } from '../fake/fake-load.js';
import { seededRandom } from '../random.js';
import { type Canary, fakeFaultOf, withCanary } from './canary.js';
import { must, Violation } from './failure.js';
import { Simulation } from './simulation.js';
import { drawSwarm, type Swarm } from './swarm.js';
import { emptyTally, type Tally } from './tally.js';
import { Trace } from './trace.js';
import { World } from './world.js';

export interface SimulationSettings {
  readonly canary?: Canary;
  /** Gets every line of the run's trace. */
  readonly onTrace?: (line: string) => void;
}

export interface SimulationFailure {
  readonly step: number;
  readonly requestId?: string;
  readonly message: string;
  /** The last lines of the trace. */
  readonly trace: readonly string[];
  readonly stack: string;
}

export interface SimulationReport {
  readonly seed: number;
  readonly swarm: Swarm;
  readonly tally: Tally;
  /** Equal seeds give equal digests of all that happened. */
  readonly digest: string;
  readonly failure?: SimulationFailure;
}

/** Runs one seed: a scheduler on a FakeBackend under everything the seed chose. Never rejects for what it finds. */
export async function simulate(seed: number, settings: SimulationSettings = {}): Promise<SimulationReport> {
  const random = seededRandom(seed);
  const swarm = drawSwarm(random);
  const trace = new Trace(settings.onTrace);
  let tally = emptyTally();
  try {
    const factory = createFakeBackend({
      seed: swarm.modelSeed,
      mismatchRate: swarm.mismatchRate,
      fastKvDeviates: swarm.fastKvDeviates,
      ...(swarm.canonicalShape && { canonicalShape: swarm.canonicalShape }),
      fault: fakeFaultOf(settings.canary),
      logSteps: 1,
    });
    const fake = await factory(fakeLoad(swarm));
    const world = new World(swarm, fake, withCanary(fake, settings.canary), trace);
    tally = world.tally;
    await new Simulation(world, random).run();
    await fake.close();
    must(factory.liveBytes() === 0, 'the backend leaks');
    return { seed, swarm, tally, digest: trace.digest };
  } catch (error) {
    const failure = failureOf(error, tally.steps, trace);
    return { seed, swarm, tally, digest: trace.digest, failure };
  }
}

function failureOf(error: unknown, step: number, trace: Trace): SimulationFailure {
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  const requestId = error instanceof Violation ? error.requestId : undefined;
  return { step, message, stack, trace: [...trace.tail], ...(requestId !== undefined && { requestId }) };
}
