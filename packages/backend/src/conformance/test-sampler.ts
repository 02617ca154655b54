import { afterEach, describe, expect, it } from 'vitest';
import type { TokenSampler } from '../sampling.js';
import { plainDraw } from './plain-draw.js';
import { SAMPLER_VOCABULARIES, samplerDraws } from './sampler-draws.js';

export interface SamplerUnderTest {
  readonly sampler: TokenSampler;
  close(): Promise<void>;
}

export interface TestSamplerOptions {
  /** Title of the suite; default `a sampler`. */
  readonly name?: string;
}

/** Registers the suite that every sampler passes, as vitest tests: its answers are those of docs/SAMPLING.md, bit for bit. */
export function testSampler(
  create: (vocabSize: number) => Promise<SamplerUnderTest>,
  { name = 'a sampler' }: TestSamplerOptions = {},
): void {
  describe(name, () => {
    let open: SamplerUnderTest | undefined;
    afterEach(async () => {
      await open?.close();
      open = undefined;
    });

    for (const vocabSize of SAMPLER_VOCABULARIES) {
      it(`draws from ${vocabSize} tokens what the definition draws`, async () => {
        open = await create(vocabSize);
        const rounds = vocabSize > 500 ? 12 : 60;
        for (let round = 0; round < rounds; round++) {
          const draws = samplerDraws(vocabSize, 1 + (round % 7), round * 1000 + vocabSize);
          const drawn = await open.sampler.sample(draws);
          expect(drawn.length).toBe(draws.length);
          for (const [i, draw] of draws.entries()) {
            const { logits: _, adjusted, ...rest } = draw;
            expect(
              { round, i, ...rest, drawn: drawn[i] },
              `${adjusted?.ids.length ?? 0} logits adjusted`,
            ).toStrictEqual({
              round,
              i,
              ...rest,
              drawn: plainDraw(draw),
            });
          }
        }
      });
    }

    it('answers nothing to nothing', async () => {
      open = await create(64);
      expect(await open.sampler.sample([])).toEqual([]);
    });

    it('changes nothing that it is given, and its answers depend on no draw beside or before', async () => {
      open = await create(1000);
      const draws = samplerDraws(1000, 24, 5);
      const logits = draws.map((draw) => draw.logits.slice());
      const together = await open.sampler.sample(draws);
      expect(draws.map((draw) => draw.logits)).toEqual(logits);
      const alone = [];
      for (const draw of draws.toReversed()) alone.push(...(await open.sampler.sample([draw])));
      expect(alone.toReversed()).toEqual(together);
    });
  });
}
