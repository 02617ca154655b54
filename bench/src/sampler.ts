import type { Draw, TokenSampler } from '@stet/backend';
import { cpuFeatures, type IsaName } from '@stet/backend-cpu';
import { GREEDY, PortableSampler, SAMPLER_VERSION } from '@stet/scheduler';
import { Bench } from 'tinybench';
import { likelyLogits } from './null-backend.js';
import type { BenchResult } from './result.js';
import { rounded } from './stats.js';
import { openVocabulary } from './vocabulary-backend.js';

type Case = Pick<Draw, 'params' | 'topLogprobs'>;

const WARM = { ...GREEDY, temperature: 0.8 };
const CASES: Readonly<Record<string, Case>> = {
  'temperature 0': { params: GREEDY },
  'temperature 0.8': { params: WARM },
  'temperature 0.8, top-p 0.95': { params: { ...WARM, topP: 0.95 } },
  'temperature 0.8, top-k 40': { params: { ...WARM, topK: 40 } },
  'temperature 0.8, min-p 0.05': { params: { ...WARM, minP: 0.05 } },
  'temperature 0, 20 log-probabilities': { params: GREEDY, topLogprobs: 20 },
};
const VOCABULARIES = [4096, 32_768, 49_152, 151_936];
/** Draws of a step of a busy server. */
const STEP_DRAWS = 20;

/** What one draw costs, in µs: by TypeScript, by native code alone and among the draws of a step. */
export async function measureSampler(): Promise<BenchResult> {
  const features = cpuFeatures();
  const threads = features.available ? features.threads : 0;
  const isas: readonly IsaName[] = features.available
    ? features.isas.filter((isa) => isa.available).map((isa) => isa.name)
    : [];
  const rows = [];
  for (const vocabSize of VOCABULARIES) {
    const samplers: [string, TokenSampler][] = [['TypeScript', new PortableSampler(vocabSize)]];
    const backends = await Promise.all(isas.map((isa) => openVocabulary(vocabSize, isa, threads)));
    for (const [i, { sampler }] of backends.entries()) if (sampler) samplers.push([isas[i]!, sampler]);
    for (const [name, one] of Object.entries(CASES))
      rows.push({ vocabulary: vocabSize, sampling: name, ...(await timesOf(samplers, vocabSize, one)) });
    await Promise.all(backends.map((backend) => backend.close()));
  }
  return {
    workload: `draws from normally distributed logits of deviation 3, another output index each time; µs a draw, p50, one draw in a call and ${STEP_DRAWS}`,
    model: 'none',
    fingerprint: SAMPLER_VERSION,
    device: isas.length > 0 ? `${isas.join(', ')}; ${threads} threads` : 'none',
    rows,
  };
}

async function timesOf(
  samplers: readonly [string, TokenSampler][],
  vocabSize: number,
  one: Case,
): Promise<Record<string, number>> {
  const logits = likelyLogits(vocabSize);
  let outputIndex = 0;
  const draws = (count: number): Draw[] =>
    Array.from({ length: count }, () => ({ ...one, logits, seed: 7, outputIndex: outputIndex++ }));
  const bench = new Bench({ time: 150, warmupTime: 50 });
  for (const [name, sampler] of samplers) {
    bench.add(name, async () => void (await sampler.sample(draws(1))));
    if (name !== 'TypeScript')
      bench.add(`${name}, ${STEP_DRAWS}`, async () => void (await sampler.sample(draws(STEP_DRAWS))));
  }
  const times: Record<string, number> = {};
  for (const { name, result } of await bench.run()) {
    if (result.state !== 'completed') throw new Error(`${name}: ${result.state}`);
    const drawCount = name.endsWith(`, ${STEP_DRAWS}`) ? STEP_DRAWS : 1;
    times[name] = rounded((result.latency.p50 * 1000) / drawCount, 1);
  }
  return times;
}
