import { fc, it as property } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { direct, dvr, GREEDY, promptLookup } from '../src/index.js';
import { answer, checkAnswers, Rig, request, sameBits } from './rig.js';

const shape = { sequenceCount: 3, windowTokens: 8 };
const prompts = (count: number) =>
  Array.from({ length: count }, (_, i) => Array.from({ length: 3 + 5 * i }, (_, j) => (i * j + 7) % 64));

describe('a fixed-shape backend', () => {
  it('gets its one shape in every pass, whatever there is to do', async () => {
    const requests = prompts(5).map((prompt) => request({ prompt, maxTokens: 30, topLogprobs: 1 }));
    const rig = await answer({ fake: { canonicalShape: shape, mismatchRate: 0.1 } }, requests);
    const passes = rig.backend.log.flatMap((step) => step.canonical ?? []);
    expect(passes.length).toBeGreaterThan(5);
    for (const pass of passes) {
      expect(pass.sequences).toHaveLength(3);
      for (const { position, tokens } of pass.sequences) expect([position % 8, tokens.length]).toEqual([0, 8]);
    }
    expect(passes.some((pass) => pass.sequences.some(({ blocks }) => blocks.every((block) => block === 0)))).toBe(true);
  });

  it('gives preempted and resumed sequences, cold and warm prompts the same bits', async () => {
    const make = (id: string) =>
      request({ id, prompt: prompts(6)[5]!, maxTokens: 40, topLogprobs: 2, sampling: { ...GREEDY, temperature: 1 } });
    const calm = await answer({ fake: { canonicalShape: shape } }, [make('a')]);
    const rig = await Rig.create({ fake: { canonicalShape: shape } });
    rig.add(make('a'));
    await rig.run(undefined, (step) => {
      if (step % 5 === 4) rig.scheduler.preempt('a');
    });
    expect(rig.outcome('a').stats!.preemptions).toBeGreaterThan(2);
    expect(sameBits(rig.outcome('a').logprobs, calm.outcome('a').logprobs)).toBe(true);
    rig.add(make('b'));
    await rig.run();
    expect(rig.outcome('b').stats!.cachedTokens).toBe(24);
    expect(sameBits(rig.outcome('b').logprobs, calm.outcome('a').logprobs)).toBe(true);
  });

  it('refuses a request that its whole windows could not hold', async () => {
    const load = { contextLength: 60, blockCount: 40 };
    const rig = await Rig.create({ fake: { canonicalShape: shape }, load });
    expect(() => rig.add(request({ maxTokens: 54 }))).toThrow(
      expect.objectContaining({ code: 'STET_ERR_CONTEXT_LENGTH' }),
    );
    rig.add(request({ maxTokens: 53 }));
    rig.add(request({ maxTokens: 57, kind: 'ordinary' }));
    await rig.run();
    rig.checkIdle();
  });

  it('needs room for its shape in a batch', async () => {
    const create = Rig.create({
      fake: { canonicalShape: { sequenceCount: 9, windowTokens: 8 } },
      load: { maxRows: 64 },
    });
    await expect(create).rejects.toThrow('does not fit');
  });

  property.prop(
    {
      sequenceCount: fc.integer({ min: 1, max: 4 }),
      windowTokens: fc.constantFrom(1, 3, 8, 16),
      blockSize: fc.constantFrom(1, 4, 16),
      mismatchRate: fc.constantFrom(0, 0.2, 1),
      policy: fc.constantFrom(dvr(), dvr({ windowTokens: 3 }), direct()),
      roomy: fc.boolean(),
      drafts: fc.boolean(),
    },
    { numRuns: 60 },
  )('gives every answer as it should be', async (choice) => {
    const { sequenceCount, windowTokens, blockSize, mismatchRate, policy, roomy, drafts } = choice;
    const requests = prompts(6).map((prompt, i) =>
      request({ prompt, maxTokens: 6 + 5 * i, kind: i % 3 === 2 ? 'ordinary' : 'deterministic', topLogprobs: i % 2 }),
    );
    const rig = await Rig.create({
      fake: { canonicalShape: { sequenceCount, windowTokens }, mismatchRate },
      load: { blockSize, blockCount: 1 + Math.ceil(96 / blockSize) * (roomy ? 8 : 1) },
      config: { policy, ...(drafts && { drafter: promptLookup({ matchTokens: 1 }) }) },
    });
    for (const one of requests) rig.add(one);
    await rig.run();
    checkAnswers(rig, requests);
    rig.checkIdle();
  });
});
