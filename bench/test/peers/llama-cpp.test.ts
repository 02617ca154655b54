import { describe, expect, it } from 'vitest';
import { llamaCpp, parseBatchedBench, parseLlamaBench, untilItSpeaks } from '../../src/peers/llama-cpp.js';

const bench = '{"n_prompt": 64, "n_gen": 0, "avg_ns": 784676794, "avg_ts": 81.562244, "stddev_ts": 0.000000}\n';
const batched =
  '\n{"n_kv_max": 2048, "pp": 32, "tg": 16, "pl": 8, "n_kv": 384, "speed_pp": 60.855358, "t_tg": 20.925871, "speed_tg": 6.116830}\n\n';

const streams = (kind: 'prefill' | 'decode', count: number) => ({ kind, prompts: Array<number[]>(count).fill([]) });

describe("llama.cpp's programs", () => {
  it('are read: the rate of the one test, the rate at which all streams are read and written', () => {
    expect(parseLlamaBench(bench)).toBe(81.562244);
    expect(parseBatchedBench(batched, streams('prefill', 8))).toBe(60.855358);
    expect(parseBatchedBench(batched, streams('decode', 8))).toBe(6.11683);
  });

  it('are not believed where they print something else', () => {
    expect(() => parseLlamaBench('')).toThrow(/expected one test/);
    expect(() => parseLlamaBench(bench + bench)).toThrow(/expected one test/);
    expect(() => parseLlamaBench('{"avg_ts": 0}')).toThrow(/rate of 0/);
    expect(() => parseBatchedBench(batched, streams('decode', 16))).toThrow(/expected 16 streams/);
    expect(() => parseBatchedBench('{"pl": 8}', streams('decode', 8))).toThrow(/rate of undefined/);
  });

  it('are run again where their last lines were lost, three times at most', async () => {
    let runs = 0;
    const after = (silent: number) => async () => (++runs > silent ? batched : '\n');
    expect(await untilItSpeaks(after(0))).toBe(batched);
    expect(runs).toBe(1);
    runs = 0;
    expect(await untilItSpeaks(after(2))).toBe(batched);
    runs = 0;
    expect(await untilItSpeaks(after(9))).toBe('\n');
    expect(runs).toBe(3);
  });

  it('are looked for before anything runs', () => {
    const options = { folder: '/nowhere', model: 'm.gguf', title: 'Q8_0', threads: 2 };
    expect(() => llamaCpp(options)).toThrow(/there is no .*llama-bench/);
  });
});
