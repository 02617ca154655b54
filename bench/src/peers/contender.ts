import type { Workload, WorkloadName } from './workloads.js';

/** Somebody who runs the workloads. One run at a time. */
export interface Contender {
  readonly name: string;
  /** Tokens per second of one run. */
  run(workload: Workload): Promise<number>;
}

/** Tokens per second of all rounds. */
export type Rates = ReadonlyMap<WorkloadName, readonly number[]>;

/**
 * All contenders take turns at each workload, in every round from another one on, so that a noisy machine and what the one before leaves in
 * the caches meet all of them alike. A round before the first warms up and is not counted.
 */
export async function takeTurns(
  contenders: readonly Contender[],
  workloads: readonly Workload[],
  rounds: number,
  log: (line: string) => void,
): Promise<ReadonlyMap<string, Rates>> {
  const rates = new Map(
    contenders.map(({ name }) => [name, new Map(workloads.map((workload) => [workload.name, [] as number[]]))]),
  );
  for (let round = 0; round <= rounds; round++) {
    log(round === 0 ? 'warming up' : `round ${round} of ${rounds}`);
    for (const workload of workloads) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const contender = contenders[(round + turn) % contenders.length]!;
        const rate = await contender.run(workload);
        if (round > 0) rates.get(contender.name)!.get(workload.name)!.push(rate);
      }
    }
  }
  return rates;
}
