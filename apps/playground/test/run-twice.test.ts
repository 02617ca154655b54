import { StetError } from '@stet/backend';
import type { GenerateEvent } from '@stet/engine';
import { describe, expect, it } from 'vitest';
import { randomRequest } from '../src/run/load.js';
import { runTwice } from '../src/run/run-twice.js';
import type { AnswerRequest, AnswerSource } from '../src/source/answer-source.js';

const REQUEST = { prompt: 'a', maxTokens: 8, seed: 1, provisional: true } as const;

/** Answers with one token a turn; requests of the load are told by their `ignoreEos`. */
class CountingSource implements AnswerSource {
  readonly info = { contextLength: 64 } as AnswerSource['info'];
  readonly asked: AnswerRequest[] = [];
  /** Requests of the load that ran beside each token of the others. */
  readonly beside: number[] = [];
  running = 0;

  constructor(private readonly loadTokens: (count: number) => number = () => 3) {}

  async *generate(
    request: AnswerRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<GenerateEvent> {
    const isLoad = request.ignoreEos === true;
    const count = this.asked.push(request);
    const tokenCount = isLoad ? this.loadTokens(count) : request.maxTokens!;
    if (isLoad) this.running++;
    try {
      for (let i = 0; i < tokenCount; i++) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        if (signal?.aborted) throw new StetError('STET_ERR_ABORTED', 'aborted');
        if (!isLoad) this.beside.push(this.running);
        yield {
          type: 'commit',
          from: i,
          tokens: [i],
          text: `t${i}`,
          hash: String(i),
          logprobs: [{ token: i, text: `t${i}`, logprob: 0, top: [] }],
        };
      }
    } finally {
      if (isLoad) this.running--;
    }
  }

  async close(): Promise<void> {}
}

function run(source: AnswerSource, loadCount: number, signal = new AbortController().signal) {
  return runTwice(source, REQUEST, { loadCount, random: () => 0.5, signal, onEvent: () => {} });
}

describe('running a request twice', () => {
  it('has nothing beside the first run, and so many requests beside the second until its end', async () => {
    const source = new CountingSource();
    const verdict = await run(source, 5);
    expect(verdict).toEqual({ kind: 'equal', tokenCount: 8, hashes: ['7', '7'] });
    expect(source.beside.slice(0, 8)).toEqual(Array(8).fill(0));
    expect(source.beside[8]).toBe(5);
    // One that ends is followed by another, in a turn in which one may be missing.
    expect(source.asked.filter(({ ignoreEos }) => ignoreEos).length).toBeGreaterThan(10);
    expect(source.running).toBe(0);
    expect(source.asked[0]).toEqual({ ...REQUEST, logprobs: 0 });
  });

  it('runs twice alone where nothing is to run beside it', async () => {
    const source = new CountingSource();
    await run(source, 0);
    expect([source.asked.length, source.beside]).toEqual([2, Array(16).fill(0)]);
  });

  it('leaves nothing running when it is stopped', async () => {
    const source = new CountingSource();
    const stopping = new AbortController();
    const running = run(source, 4, stopping.signal);
    setTimeout(() => stopping.abort(), 12);
    await expect(running).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(source.running).toBe(0);
  });

  it('asks nobody without end who answers nothing', async () => {
    const source = new CountingSource(() => 0);
    await run(source, 3);
    expect(source.asked.length).toBe(5);
  });

  it('says when a request of the load is refused', async () => {
    const source = new CountingSource((count) => {
      if (count > 3) throw new StetError('STET_ERR_QUEUE_FULL', 'full');
      return 3;
    });
    await expect(run(source, 4)).rejects.toMatchObject({ code: 'STET_ERR_QUEUE_FULL' });
    expect(source.running).toBe(0);
  });
});

describe('a random request', () => {
  it('fits half of the context and ends by its length alone', () => {
    for (const value of [0, 0.3, 0.999_999]) {
      const request = randomRequest(() => value, 64);
      expect(request).toMatchObject({ ignoreEos: true, prompt: expect.stringMatching(/\w/) });
      expect(request.maxTokens).toBeGreaterThanOrEqual(1);
      expect(request.maxTokens).toBeLessThanOrEqual(32);
      expect(Number.isSafeInteger(request.seed)).toBe(true);
    }
    expect(randomRequest(() => 0, 1024)).not.toEqual(randomRequest(() => 0.9, 1024));
  });
});
