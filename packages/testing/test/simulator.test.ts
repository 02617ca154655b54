import { GREEDY, Sampler, type SamplingParams, tokenLogprob } from '@stet/scheduler';
import { describe, expect, it } from 'vitest';
import {
  addTally,
  CANARIES,
  type Canary,
  describeFailure,
  emptyTally,
  fakeLogits,
  MISMATCH_RATES,
  MISMATCH_WORKLOAD,
  mismatchTable,
  plainLogprob,
  plainSample,
  seededRandom,
  simulate,
} from '../src/index.js';
import { runSimulator } from '../src/simulator/cli.js';

async function run(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = [];
  const code = await runSimulator(args, { line: (text) => lines.push(...text.split('\n')), progress: () => {} });
  return { code, lines };
}

/** The first seed that finds the bug, from seed 1 on. */
async function findCanary(canary: Canary, mostSeeds: number) {
  for (let seed = 1; seed <= mostSeeds; seed++) {
    const report = await simulate(seed, { canary });
    if (report.failure) return report;
  }
  return undefined;
}

describe('must-test list', () => {
  it("24. soaks in simulated traffic: every answer is the oracle's, nothing leaks, nobody starves", async () => {
    const total = emptyTally();
    for (let seed = 1; seed <= 24; seed++) {
      const report = await simulate(seed);
      expect(report.failure && describeFailure(report)).toBeUndefined();
      addTally(total, report.tally);
    }
    expect(total.requests).toBeGreaterThan(1000);
    // A swarm in which something never happens tests nothing.
    for (const [what, count] of Object.entries(total)) expect(count, what).toBeGreaterThan(0);
  });
});

describe('the simulator', () => {
  it('runs the same seed again, byte for byte, and another seed differently', async () => {
    const trace = async (seed: number) => {
      const lines: string[] = [];
      const report = await simulate(seed, { onTrace: (line) => lines.push(line) });
      return { lines, report };
    };
    const [first, again, other] = [await trace(7), await trace(7), await trace(8)];
    expect(again.lines.join('\n')).toBe(first.lines.join('\n'));
    expect(first.lines.length).toBeGreaterThan(200);
    expect(JSON.stringify(again.report)).toBe(JSON.stringify(first.report));
    expect(other.report.digest).not.toBe(first.report.digest);
  });

  it.each(CANARIES)('finds the planted bug %s within a few seeds, and its report replays it', async (canary) => {
    const found = await findCanary(canary, 5);
    expect(found?.failure?.message).toMatch(/^output index \d+: (got token|log-probabilities are)/);
    expect(found!.failure!.requestId).toBeDefined();
    const text = describeFailure(found!, canary);
    expect(text).toContain(`seed ${found!.seed} failed in step ${found!.failure!.step}, request `);
    expect(text).toContain(`replay: npm run sim -- --seed ${found!.seed} --bug ${canary}`);
    const again = await simulate(found!.seed, { canary });
    expect(describeFailure(again, canary)).toBe(text);
    expect(again.digest).toBe(found!.digest);
  });

  it('samples by the definition and not by the scheduler, and both agree', () => {
    const random = seededRandom(5);
    const sampler = new Sampler(64);
    for (let i = 0; i < 300; i++) {
      const logits = fakeLogits([i, 7, random.below(64)]);
      const output = Array.from({ length: random.below(12) }, () => random.below(64));
      const prompt = [1, 2, random.below(64)];
      const counts = new Map<number, number>();
      for (const token of output) counts.set(token, (counts.get(token) ?? 0) + 1);
      const params: SamplingParams = {
        ...GREEDY,
        temperature: random.pick([0, 0.3, 1, 5]),
        topK: random.pick([0, 2, 20]),
        topP: random.pick([1, 0.8, 0]),
        minP: random.pick([0, 0.1]),
        frequencyPenalty: random.pick([0, 1]),
        presencePenalty: random.pick([0, -0.5]),
        repetitionPenalty: random.pick([1, 1.3]),
        logitBias: new Map([[random.below(64), 4]]),
      };
      const seed = random.next() * 2 ** 21 + 5;
      const drawn = sampler.sample(logits, params, seed, i, { prompt: new Set(prompt), output: counts });
      expect(plainSample(logits, params, seed, i, prompt, output)).toBe(drawn);
      expect(plainLogprob(logits, drawn, 5)).toEqual(tokenLogprob(logits, drawn, 5));
    }
  });

  it('tells what injected mismatches cost', async () => {
    const rows = await mismatchTable();
    expect(rows.map((row) => row.rate)).toEqual(MISMATCH_RATES);
    const [none, few, tenth, half, all] = rows;
    const { sequenceCount, outputTokens, windowTokens } = MISMATCH_WORKLOAD;
    for (const row of rows) expect(row.committedTokens).toBe(sequenceCount * outputTokens);
    expect([none!.injected, none!.rollbacks, none!.recomputedTokens]).toEqual([0, 0, 0]);
    expect([all!.rollbacks, all!.recomputedTokens]).toEqual([all!.windows, all!.injected]);
    expect(all!.windows).toBeGreaterThan(sequenceCount * (outputTokens - windowTokens));
    const speeds = [none, few, tenth, half, all].map((row) => row!.tokensPerForward);
    expect([...speeds].sort((a, b) => b - a)).toEqual(speeds);
  });
});

describe('the command line of the simulator', () => {
  it('names the seeds first and ends with one line of JSON', async () => {
    const { code, lines } = await run('--seeds', '2', '--seed', '3', '--json');
    expect(code).toBe(0);
    expect(lines[0]).toBe('seeds 3 to 4');
    const { requests, ...rest } = JSON.parse(lines.at(-1)!);
    expect(rest).toEqual({ seeds: 2, violations: 0, firstSeed: null });
    expect(requests).toBeGreaterThan(60);
  });

  it('ends with 1 after violations, and names the first seed', async () => {
    const { code, lines } = await run('--seeds', '3', '--canary', '--json');
    expect(code).toBe(1);
    const { violations, firstSeed } = JSON.parse(lines.at(-1)!);
    expect(violations).toBeGreaterThan(0);
    expect(lines.some((line) => line.startsWith(`seed ${firstSeed} failed in step `))).toBe(true);
    expect(
      lines.some((line) => line.trim() === `replay: npm run sim -- --seed ${firstSeed} --bug ${CANARIES[0]}`),
    ).toBe(true);
  });

  it('runs one seed with everything that happens in it', async () => {
    const { code, lines } = await run('--seed', '3', '--trace');
    expect(code).toBe(0);
    expect(lines[0]).toBe('seed 3');
    expect(lines.filter((line) => / step \d+: /.test(line)).length).toBeGreaterThan(50);
    expect(lines.some((line) => /^digest [0-9a-f]{8}$/.test(line))).toBe(true);
  });

  it('prints the table of injected mismatches', async () => {
    const { code, lines } = await run('--table', '--json');
    expect(code).toBe(0);
    expect(lines.filter((line) => /^ +\d+ %/.test(line))).toHaveLength(5);
    expect(JSON.parse(lines.at(-1)!)).toHaveLength(5);
  });

  it.each([[['--seed', 'x']], [['--seeds', '0']], [['--bug', 'unknown']], [['--what']]])(
    'refuses %j and says what there is',
    async (args) => {
      const { code, lines } = await run(...args);
      expect(code).toBe(2);
      expect(lines).toContain('  --seeds N     run N seeds, 100 by default');
    },
  );
});
