import { GREEDY, SAMPLER_VERSION, Sampler, type SamplingParams } from '@stet/scheduler';
import { Bench } from 'tinybench';
import { likelyLogits } from './null-backend.js';
import type { BenchResult } from './result.js';
import { rounded } from './stats.js';

const PARAMS: Readonly<Record<string, SamplingParams>> = {
  'temperature 0': GREEDY,
  'temperature 0.8': { ...GREEDY, temperature: 0.8 },
  'temperature 0.8, top-p 0.95': { ...GREEDY, temperature: 0.8, topP: 0.95 },
  'temperature 0.8, top-k 40': { ...GREEDY, temperature: 0.8, topK: 40 },
  'temperature 0.8, min-p 0.05': { ...GREEDY, temperature: 0.8, minP: 0.05 },
};

/** What one draw costs, in µs. */
export async function measureSampler(): Promise<BenchResult> {
  const rows = [];
  for (const vocabSize of [4096, 32768]) {
    const sampler = new Sampler(vocabSize);
    const logits = likelyLogits(vocabSize);
    const bench = new Bench({ time: 500, warmupTime: 100 });
    for (const [name, params] of Object.entries(PARAMS)) {
      let outputIndex = 0;
      bench.add(name, () => void sampler.sample(logits, params, 7, outputIndex++, undefined));
    }
    for (const { name, result } of await bench.run()) {
      if (result.state !== 'completed') throw new Error(`${name}: ${result.state}`);
      const { p50, p99, samplesCount } = result.latency;
      const us = (ms: number) => rounded(ms * 1000, 2);
      rows.push({ vocabulary: vocabSize, sampling: name, 'p50 µs': us(p50), 'p99 µs': us(p99), draws: samplesCount });
    }
  }
  return {
    workload: 'one draw from normally distributed logits of deviation 3, another output index each time',
    model: 'none',
    fingerprint: SAMPLER_VERSION,
    device: 'none',
    rows,
  };
}
