import type { Workload, WorkloadName } from './workloads.js';

/** Somebody who takes part. What fails of ours ends the benchmark; a peer that fails is left out from then on. */
export interface Participant {
  readonly name: string;
  readonly kind: 'ours' | 'peer';
}

/** Somebody who runs the workloads. One run at a time. */
export interface Contender extends Participant {
  /** Tokens per second of one run. */
  run(workload: Workload): Promise<number>;
}

/** Tokens per second of all rounds. */
export type Rates = ReadonlyMap<WorkloadName, readonly number[]>;

export interface Turns {
  /** Of those who stayed to the end, by name. */
  readonly rates: ReadonlyMap<string, Rates>;
  /** Why the others did not, by name. */
  readonly failed: ReadonlyMap<string, string>;
}

/**
 * All contenders take turns at each workload, in every round from another one on, so that a noisy machine and what the one before leaves in
 * the caches meet all of them alike. A round before the first warms up and is not counted.
 */
export async function takeTurns(
  contenders: readonly Contender[],
  workloads: readonly Workload[],
  rounds: number,
  log: (line: string) => void,
): Promise<Turns> {
  const rates = new Map(
    contenders.map(({ name }) => [name, new Map(workloads.map((workload) => [workload.name, [] as number[]]))]),
  );
  const failed = new Map<string, string>();
  for (let round = 0; round <= rounds; round++) {
    log(round === 0 ? 'warming up' : `round ${round} of ${rounds}`);
    for (const workload of workloads) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const contender = contenders[(round + turn) % contenders.length]!;
        if (failed.has(contender.name)) continue;
        const rate = await unlessItFails(contender, () => contender.run(workload), failed, log);
        if (rate !== undefined && round > 0) rates.get(contender.name)!.get(workload.name)!.push(rate);
      }
    }
  }
  for (const name of failed.keys()) rates.delete(name);
  return { rates, failed };
}

/** What `act` resolves with. A peer's failure goes into `failed`, with a line that says so; ours is thrown. */
export async function unlessItFails<T>(
  { name, kind }: Participant,
  act: () => Promise<T>,
  failed: Map<string, string>,
  log: (line: string) => void,
): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (kind === 'ours') throw error;
    const reason = error instanceof Error ? error.message : String(error);
    failed.set(name, reason);
    log(`SKIPPED ${name}: ${reason}`);
    return undefined;
  }
}
