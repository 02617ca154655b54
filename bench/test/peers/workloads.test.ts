import { describe, expect, it } from 'vitest';
import { prefillSteps } from '../../src/peers/stet-contenders.js';
import { workloadsOf } from '../../src/peers/workloads.js';

describe('workloads', () => {
  const text = Array.from({ length: 530 }, (_, i) => i);

  it('are a prompt of 512 tokens, 1 to 16 different ones of 128, and 1 to 16 of 32 with an output', () => {
    const workloads = workloadsOf(text, 64);
    const shapes = workloads.map(({ name, kind, prompts, outputTokens }) => [
      name,
      kind,
      prompts.length,
      prompts[0]!.length,
      outputTokens,
    ]);
    expect(shapes).toEqual([
      ['prefill512', 'prefill', 1, 512, 1],
      ['prefill1x128', 'prefill', 1, 128, 1],
      ['prefill4x128', 'prefill', 4, 128, 1],
      ['prefill16x128', 'prefill', 16, 128, 1],
      ['decode1', 'decode', 1, 32, 64],
      ['decode4', 'decode', 4, 32, 64],
      ['decode8', 'decode', 8, 32, 64],
      ['decode16', 'decode', 16, 32, 64],
    ]);
    expect(workloads[0]!.prompts[0]).toEqual(text.slice(0, 512));
    for (const { prompts } of workloads) {
      for (const prompt of prompts) expect(prompt).toHaveLength(prompts[0]!.length);
      expect(new Set(prompts.map(([first]) => first)).size).toBe(prompts.length);
    }
  });

  it('refuse a text that is too short', () => {
    expect(() => workloadsOf(text.slice(0, 511), 64)).toThrow(/511 tokens/);
  });
});

describe('prefillSteps', () => {
  it('cuts a long prompt at the most rows of a step', () => {
    expect(prefillSteps([{ length: 600 }], 256)).toEqual([
      [{ s: 0, start: 0, count: 256 }],
      [{ s: 0, start: 256, count: 256 }],
      [{ s: 0, start: 512, count: 88 }],
    ]);
  });

  it('fills every step up with what comes next', () => {
    expect(prefillSteps([{ length: 3 }, { length: 3 }, { length: 2 }], 4)).toEqual([
      [
        { s: 0, start: 0, count: 3 },
        { s: 1, start: 0, count: 1 },
      ],
      [
        { s: 1, start: 1, count: 2 },
        { s: 2, start: 0, count: 2 },
      ],
    ]);
  });
});
