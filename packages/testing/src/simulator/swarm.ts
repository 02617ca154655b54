import type { CanonicalShape } from '@stet/backend';
import {
  auto,
  type Drafter,
  direct,
  dvr,
  promptLookup,
  type SchedulerLimits,
  type VerifyPolicy,
} from '@stet/scheduler';
import type { SeededRandom } from '../random.js';

/** How requests arrive. `flood`: as fast as they are taken; `trickle`: the next comes when none is open. */
export type ArrivalPattern = 'flood' | 'bursts' | 'steady' | 'trickle';

/** What one seed chose: each disturbance is off in some seeds, rare in others, frequent in others. */
export interface Swarm {
  readonly modelSeed: number;
  readonly vocabSize: number;
  readonly mismatchRate: number;
  readonly fastKvDeviates: boolean;
  readonly contextLength: number;
  readonly maxRows: number;
  readonly blockSize: number;
  readonly blockCount: number;
  /** Of a backend whose canonical schedule has one shape. */
  readonly canonicalShape: CanonicalShape | undefined;
  readonly prefixCache: 'on' | 'off';
  readonly limits: SchedulerLimits;
  /** Changed in mid-run if `chances.policy` says so. */
  readonly policies: readonly SimulatedPolicy[];
  readonly drafter: SimulatedDrafter | undefined;
  readonly requestCount: number;
  readonly arrivals: ArrivalPattern;
  readonly longestPrompt: number;
  readonly longestOutput: number;
  /** Share of deterministic requests. */
  readonly deterministic: number;
  readonly priorities: readonly number[];
  readonly chances: Chances;
}

/** Probabilities per step, or per request where it says so. */
export interface Chances {
  readonly abort: number;
  readonly preempt: number;
  readonly pause: number;
  readonly resume: number;
  readonly policy: number;
  readonly failure: number;
  /** The device goes away in a step, half the time as its tokens are drawn, and a new one comes some rounds later. */
  readonly deviceLoss: number;
  /** The result of a step comes some rounds late; whatever disturbs happens meanwhile. */
  readonly late: number;
  readonly clockJump: number;
  /** Per request: it begins with a prefix that others have too. */
  readonly sharedPrefix: number;
  /** Per request: it extends the prompt and answer of an earlier one. */
  readonly followUp: number;
  /** Per request: it has the prompt of the one before and waits for its prefill, as several answers to one prompt do. */
  readonly sibling: number;
  /** Per request: it breaks a rule and must be refused. */
  readonly invalid: number;
  /** Per request. */
  readonly sampled: number;
  readonly stops: number;
  readonly provisional: number;
  readonly logprobs: number;
}

export interface SimulatedPolicy {
  readonly name: string;
  /** Candidates it lets gather at most, or with near certainty. */
  readonly mostCandidates: number;
  create(random: SeededRandom): VerifyPolicy;
}

export interface SimulatedDrafter {
  readonly name: string;
  create(random: SeededRandom): Drafter;
}

/** The options of a seed. */
export function drawSwarm(random: SeededRandom): Swarm {
  const mismatchRate = random.pick([0, 0, 0.01, 0.1, 0.5, 1]);
  const blockSize = random.pick([1, 2, 3, 4, 16]);
  const vocabSize = random.pick([2, 5, 64, 64, 200]);
  // Many short requests and few rows show soonest who starves.
  const isFlood = random.chance(0.15);
  const longestPrompt = isFlood ? 4 : random.pick([4, 20, 60]);
  const longestOutput = isFlood ? 8 : random.pick([4, 16, 40, 64]);
  const contextLength = random.pick([128, 256]);
  const maxRows = random.pick([8, 64]);
  const canonicalShape = random.chance(0.2) ? drawShape(random, maxRows) : undefined;
  const leastBlocks = Math.ceil((longestPrompt + longestOutput + (canonicalShape?.windowTokens ?? 0)) / blockSize);
  return {
    modelSeed: random.next(),
    vocabSize,
    mismatchRate,
    fastKvDeviates: mismatchRate > 0 || random.chance(0.8),
    contextLength,
    maxRows,
    blockSize,
    blockCount: 1 + Math.ceil(leastBlocks * random.pick([1, 1.3, 2, 4, 16])),
    canonicalShape,
    prefixCache: random.chance(0.8) ? 'on' : 'off',
    limits: {
      ...drawLimits(random),
      ...(isFlood && { fastBudget: random.pick([1, 2, 5]), maxRunning: random.pick([5, 16]) }),
    },
    policies: Array.from({ length: random.between(1, 4) }, () => drawPolicy(random)),
    drafter: drawDrafter(random, vocabSize),
    requestCount: isFlood ? 150 : random.between(30, 80),
    arrivals: isFlood ? 'flood' : random.pick(['flood', 'bursts', 'steady', 'steady', 'trickle'] as const),
    longestPrompt,
    longestOutput,
    deterministic: random.pick([0.1, 0.5, 0.9, 1]),
    priorities: random.pick([[0], [0], [0, 1], [-3, 0, 0.5, 7]]),
    chances: drawChances(random),
  };
}

function drawShape(random: SeededRandom, maxRows: number): CanonicalShape {
  const windowTokens = Math.min(maxRows, random.pick([1, 3, 8, 16]));
  return { windowTokens, sequenceCount: random.between(1, Math.min(4, Math.floor(maxRows / windowTokens))) };
}

function drawLimits(random: SeededRandom): SchedulerLimits {
  const rows = () => random.pick([1, 2, 5, 16, 64, 512]);
  return {
    maxWaiting: random.pick([2, 8, 1024]),
    maxRunning: random.pick([1, 2, 5, 16, 256]),
    fastBudget: rows(),
    canonicalBudget: rows(),
    prefillBudget: random.pick([1, 4, 16, 128]),
    scoreBudget: 64,
    draftTokens: random.pick([1, 3, 16]),
  };
}

function drawChances(random: SeededRandom): Chances {
  const some = (rare: number, often: number) => random.pick([0, rare, often]);
  return {
    abort: some(0.003, 0.03),
    preempt: some(0.01, 0.1),
    pause: some(0.02, 0.1),
    resume: random.pick([0.05, 0.5]),
    policy: some(0.01, 0.3),
    failure: some(0.002, 0.02),
    late: some(0.05, 0.5),
    clockJump: some(0.01, 0.2),
    sharedPrefix: some(0.3, 0.9),
    followUp: some(0.2, 0.6),
    sibling: some(0.1, 0.4),
    invalid: some(0.03, 0.15),
    sampled: some(0.4, 1),
    stops: some(0.4, 1),
    provisional: some(0.3, 1),
    logprobs: some(0.3, 1),
    deviceLoss: some(0.002, 0.02),
  };
}

function drawPolicy(random: SeededRandom): SimulatedPolicy {
  switch (random.below(8)) {
    case 0:
      return { name: 'direct', mostCandidates: 1, create: direct };
    case 1:
      return { name: 'fickle', mostCandidates: 60, create: fickle };
    case 2:
      return { name: 'auto', mostCandidates: 32, create: () => auto() };
    default: {
      const windowTokens = random.pick([1, 2, 4, 7, 16, 32]);
      const maxHoldMs = random.pick([1, 20, 1e9]);
      const nearTieGap = random.pick([0, 0, 0.1, 2]);
      return {
        name: `dvr(${windowTokens}, ${maxHoldMs} ms, ${nearTieGap})`,
        mostCandidates: windowTokens,
        create: () => dvr({ windowTokens, maxHoldMs, nearTieGap }),
      };
    }
  }
}

function drawDrafter(random: SeededRandom, vocabSize: number): SimulatedDrafter | undefined {
  const matchTokens = random.between(1, 3);
  const draftTokens = random.pick([1, 3, 8]);
  switch (random.below(4)) {
    case 0:
      return { name: 'prompt look-up', create: () => promptLookup({ matchTokens, draftTokens }) };
    case 1:
      return { name: 'guesser', create: (guesses) => guesser(guesses, vocabSize) };
    default:
      return undefined;
  }
}

/** Guesses at random: nearly always wrong, which must cost time alone. */
function guesser(random: SeededRandom, vocabSize: number): Drafter {
  const propose = (_: Int32Array, most: number) =>
    Array.from({ length: random.between(0, most) }, () => random.below(vocabSize));
  return { name: 'guesser', open: () => ({ propose }) };
}

/** Positions that one sequence may have: the context's, or as many as the blocks hold, in whole windows of a fixed shape. */
export function longestSequence(swarm: Swarm): number {
  const { contextLength, blockCount, blockSize, canonicalShape } = swarm;
  const positions = Math.min(contextLength, (blockCount - 1) * blockSize);
  return positions - (positions % (canonicalShape?.windowTokens ?? 1));
}

/** Changes its mind at every step. */
function fickle(random: SeededRandom): VerifyPolicy {
  return { name: 'fickle', decide: () => (random.chance(0.4) ? 'verify' : 'decode') };
}
