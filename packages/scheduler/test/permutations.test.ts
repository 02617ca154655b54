import { fc, it } from '@fast-check/vitest';
import { seededRandom } from '@stet/testing';
import { describe, expect } from 'vitest';
import { auto, direct, dvr, GREEDY, promptLookup, type SequenceRequest, type VerifyPolicy } from '../src/index.js';
import { checkAnswers, Rig, request } from './rig.js';

/** A policy that changes its mind at every step. */
function fickle(seed: number): VerifyPolicy {
  const random = seededRandom(seed);
  return {
    name: 'fickle',
    decide: ({ candidateCount }) =>
      candidateCount > 0 && random.chance(0.3) ? 'verify' : random.chance(0.8) ? 'decode' : 'verify',
  };
}

const policies = fc.oneof(
  fc.record({ windowTokens: fc.integer({ min: 1, max: 40 }), maxHoldMs: fc.integer({ min: 1, max: 50 }) }).map(dvr),
  fc.constant(direct()),
  fc.constant(auto()),
  fc.integer().map(fickle),
);

function randomRequests(seed: number, count: number): SequenceRequest[] {
  const random = seededRandom(seed);
  const shared = Array.from({ length: 20 }, () => random.below(64));
  return Array.from({ length: count }, (_, i) =>
    request({
      id: `q${i}`,
      kind: random.chance(0.7) ? 'deterministic' : 'ordinary',
      prompt: [
        ...shared.slice(0, random.below(20)),
        ...Array.from({ length: random.between(1, 12) }, () => random.below(64)),
      ],
      maxTokens: random.between(1, 40),
      sampling: random.chance(0.5)
        ? GREEDY
        : {
            ...GREEDY,
            temperature: 0.5 + random.below(10) / 10,
            topP: random.pick([1, 0.9]),
            presencePenalty: random.pick([0, 0.4]),
          },
      seed: random.next(),
      stopTokens: new Set([random.below(64)]),
      priority: random.below(3),
      provisional: random.chance(0.3),
      ...(random.chance(0.5) && { topLogprobs: random.below(4) }),
    }),
  );
}

describe('choices of the scheduler', () => {
  it.prop(
    {
      seed: fc.integer(),
      policy: policies,
      mismatchRate: fc.constantFrom(0, 0.05, 0.5, 1),
      blockSize: fc.constantFrom(1, 4, 16),
      roomy: fc.boolean(),
      drafts: fc.boolean(),
      prefixCache: fc.constantFrom('on' as const, 'off' as const),
      limits: fc.record({
        maxRunning: fc.integer({ min: 1, max: 12 }),
        fastBudget: fc.integer({ min: 1, max: 40 }),
        canonicalBudget: fc.integer({ min: 1, max: 40 }),
        prefillBudget: fc.integer({ min: 1, max: 16 }),
      }),
    },
    { numRuns: 80 },
  )('18. change no bit: order, window, chunk, policy, budgets, blocks and preemption', async (choice) => {
    const { seed, policy, mismatchRate, blockSize, roomy, prefixCache, drafts, limits } = choice;
    const blockCount = 1 + Math.ceil(80 / blockSize) * (roomy ? 12 : 1);
    const rig = await Rig.create({
      fake: { mismatchRate },
      load: { blockSize, blockCount },
      config: { policy, limits, prefixCache, ...(drafts && { drafter: promptLookup({ matchTokens: 1 }) }) },
    });
    const random = seededRandom(seed + 1);
    const requests = random.shuffle(randomRequests(seed, 10));
    const late = requests.splice(random.below(8));
    const aborted = new Set<string>();
    for (const one of requests) rig.add(one);
    await rig.run(undefined, () => {
      const next = random.chance(0.3) ? late.pop() : undefined;
      if (next) {
        requests.push(next);
        rig.add(next);
      }
      const one = random.pick(requests);
      if (random.chance(0.02)) rig.scheduler.preempt(one.id);
      if (random.chance(0.01) && rig.outcome(one.id).reason === undefined) {
        aborted.add(one.id);
        rig.note(rig.scheduler.abort(one.id, rig.clock.now()));
      }
    });
    checkAnswers(
      rig,
      requests.filter(({ id }) => !aborted.has(id)),
    );
    for (const { id } of requests) expect(rig.outcome(id).reason).toBeDefined();
    rig.checkIdle();
  });
});
