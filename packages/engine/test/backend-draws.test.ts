import type { Backend } from '@stet/backend';
import { PortableSampler } from '@stet/scheduler';
import { expect, it } from 'vitest';
import { fakeEngine, readAll } from './helpers.js';

it('has the backend draw the tokens, where it offers that, and gives the same answer', async () => {
  let drawCount = 0;
  const wrap = (backend: Backend): Backend => {
    const portable = new PortableSampler(backend.info.vocabSize);
    return {
      info: backend.info,
      sampler: {
        sample: async (draws) => {
          drawCount += draws.length;
          return portable.sample(draws);
        },
      },
      forward: (step) => backend.forward(step),
      close: () => backend.close(),
    };
  };
  const request = {
    prompt: 'hello',
    deterministic: true,
    temperature: 1,
    seed: 5,
    maxTokens: 20,
    logprobs: 2,
  } as const;
  await using own = await fakeEngine();
  await using other = await fakeEngine({ wrap });
  const want = await readAll(own.engine.generate(request));
  const got = await readAll(other.engine.generate(request));
  expect(got.tokens).toEqual(want.tokens);
  expect(got.logprobs).toEqual(want.logprobs);
  expect(got.logprobs).toHaveLength(20);
  expect(drawCount).toBeGreaterThanOrEqual(20);
});
