import { assert } from '@stet/backend';
import { SAMPLER_VERSION } from '@stet/scheduler';
import type { BenchResult } from './result.js';
import { median, percentile, rounded } from './stats.js';
import { type StepCase, StepRig, type StepTimes } from './step-rig.js';

interface Effort {
  /** Steps before the first that counts. */
  readonly warmUp: number;
  readonly rounds: number;
  readonly stepsPerRound: number;
}

const GREEDY_EFFORT: Effort = { warmUp: 100, rounds: 25, stepsPerRound: 20 };
/** Draws take a thousand times longer than all the rest. */
const SAMPLED_EFFORT: Effort = { warmUp: 16, rounds: 10, stepsPerRound: 4 };
const RUNNING = [1, 64, 512];

/** What the scheduler costs: plan and apply of one step over a device that takes no time, in µs. */
export async function measureStep(): Promise<BenchResult> {
  const greedy = RUNNING.flatMap((running) =>
    [1024, 32768].map((context) => ({ running, context, sampling: 'greedy' as const, vocabSize: 4096 })),
  );
  const sampled = RUNNING.flatMap((running) =>
    [4096, 32768].map((vocabSize) => ({ running, context: 1024, sampling: 'sampled' as const, vocabSize })),
  );
  return {
    workload:
      'steps of all cases in interleaved rounds; blocks of 16, batches of at most 512 rows, policy dvr(16), half of the ' +
      'sequences deterministic, every candidate verified; sampled: temperature 0.8, top-p 0.95',
    model: 'none (null backend)',
    fingerprint: SAMPLER_VERSION,
    device: 'none',
    rows: [...(await measureCases(greedy, GREEDY_EFFORT)), ...(await measureCases(sampled, SAMPLED_EFFORT))],
  };
}

/** Cases take turns, so that a noisy machine disturbs all of them alike. */
async function measureCases(cases: readonly Omit<StepCase, 'steps'>[], { warmUp, rounds, stepsPerRound }: Effort) {
  const rigs: { one: StepCase; rig: StepRig; times: StepTimes[] }[] = [];
  for (const half of cases) {
    const one = { ...half, steps: warmUp + rounds * stepsPerRound };
    rigs.push({ one, rig: await StepRig.create(one), times: [] });
  }
  for (const { rig } of rigs) await runSteps(rig, warmUp);
  for (let round = 0; round < rounds; round++)
    for (const { rig, times } of rigs) times.push(...(await runSteps(rig, stepsPerRound)));
  return rigs.map(({ one, times }) => row(one, times));
}

async function runSteps(rig: StepRig, count: number): Promise<StepTimes[]> {
  const times: StepTimes[] = [];
  for (let i = 0; i < count; i++) {
    const one = await rig.step();
    assert(one, 'the sequences ended before the measurement');
    times.push(one);
  }
  return times;
}

function row({ running, context, sampling, vocabSize }: StepCase, times: readonly StepTimes[]) {
  const whole = times.map(({ plan, apply }) => plan + apply);
  const of = (part: keyof StepTimes) => times.map((one) => one[part]);
  return {
    running,
    context,
    sampling,
    vocabulary: vocabSize,
    steps: times.length,
    'plan + apply p50 µs': rounded(median(whole), 1),
    'p99 µs': rounded(percentile(whole, 0.99), 1),
    'max µs': rounded(Math.max(...whole), 1),
    'plan p50 µs': rounded(median(of('plan')), 1),
    'apply p50 µs': rounded(median(of('apply')), 1),
    'check p50 µs': rounded(median(of('check')), 1),
    'check p99 µs': rounded(percentile(of('check'), 0.99), 1),
  };
}
