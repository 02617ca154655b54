import { cpuFeatures } from '@stet/backend-cpu';
import { createServer } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { online } from '../../src/scenarios/online.js';
import type { Latencies, OnlineMeasure, OnlineRun } from '../../src/scenarios/online-cases.js';
import type { Unit } from '../../src/study/scenario.js';
import type { Study } from '../../src/study/study.js';
import { runOpenLoop } from '../../src/workloads/open-loop.js';
import { type TraceRequest, traceOf } from '../../src/workloads/trace.js';
import type { WorkloadFigures } from '../../src/workloads/workload.js';
import { inSmallStudy, study } from './support/small-study.js';

const cpu = cpuFeatures();
const lengths = { mean: 100.5, p50: 90, p90: 200, max: 300 };
const workload: WorkloadFigures = {
  kind: 'sharegpt',
  description: 'what it is',
  requests: 40,
  promptTokens: lengths,
  outputTokens: lengths,
};

function latencies(firstToken: number, answer: number, gap = 2): Latencies {
  return { firstTokenMs: [1, firstToken], endToEndMs: [50, answer], gapMs: { p50: gap, p90: gap, p99: gap, max: gap } };
}

async function measured(of: Study, run: (key: string) => Partial<OnlineRun>): Promise<Map<string, OnlineMeasure>> {
  const units = (await online.units(of)) as readonly Unit<OnlineMeasure>[];
  const base: OnlineRun = { qps: 10, lagP99Ms: 0.4, latencies: { ordinary: latencies(10, 100) }, digests: {} };
  return new Map(
    units.map(({ key }): [string, OnlineMeasure] => {
      if (key === 'workload') return [key, workload];
      return [key, key === 'capacity' ? { qps: 40.25 } : { ...base, ...run(key) }];
    }),
  );
}

describe('the units of online', () => {
  it('are named by their load, whatever it comes to', async () => {
    const keys = (await online.units(study)).map(({ key }) => key);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.slice(0, 2)).toEqual(['workload', 'capacity']);
    expect(keys).toContain('load 0.6, 20 %, round 1');
    const asked = (await online.units({ ...study, qps: [2, 5] })).map(({ key }) => key);
    expect(asked).toContain('5 QPS, all canonical, round 2');
  });

  it('are refused where a share is no request', () => {
    expect(() => online.units({ ...study, requests: 2 })).toThrow(/20 % of 2 requests is none/);
  });
});

describe('the result of online', () => {
  it('is a ratio of percentiles at equal load, and tells kinds of requests apart', async () => {
    const { tables, findings, comparisons } = online.result(
      await measured(study, (key) => {
        const lot = key.startsWith('load 0.6') ? 2 : 1;
        if (key.includes('none')) return { latencies: { ordinary: latencies(10 * lot, 100 * lot) } };
        if (key.includes('all')) return { latencies: { deterministic: latencies(40 * lot, 300 * lot) } };
        return { latencies: { ordinary: latencies(5, 90, 3), deterministic: latencies(15 * lot, 120 * lot) } };
      }),
      study,
    );
    const [ratios, times] = tables;
    expect(ratios!.rows).toHaveLength(6);
    expect(ratios!.rows.slice(0, 3)).toEqual([
      expect.objectContaining({ load: 'load 0.3', deterministic: 'none', 'TTFT p99': 1, 'answer p99': 1 }),
      expect.objectContaining({ deterministic: '20 %', 'TTFT p99': 1.5, 'answer p99': 1.2 }),
      expect.objectContaining({ deterministic: 'all canonical', 'TTFT p99': 4, 'answer p99': 3 }),
    ]);
    expect(times!.rows.filter((row) => row.deterministic === '20 %' && row.load === 'load 0.6')).toEqual([
      expect.objectContaining({ requests: 'ordinary', count: 4, 'TTFT p99': 5 }),
      expect.objectContaining({ requests: 'deterministic', count: 4, 'TTFT p99': 30 }),
    ]);
    expect(findings[0]).toMatch(/^With 20 % .* 1\.50 times at load 0\.3 .* 1\.20 times at load 0\.6/);
    expect(findings[2]).toMatch(/1\.50 times by median/);
    expect(comparisons!.find(({ what }) => what.includes('20 %') && what.includes('first'))).toMatchObject({
      theirs: [1.6, 3.7],
      ours: 1.5,
    });
  });

  it('says when the client was late itself', async () => {
    const late = await measured(study, (key) => (key === 'load 0.3, 20 %, round 2' ? { lagP99Ms: 7.3 } : {}));
    expect(online.result(late, study).findings.at(-1)).toMatch(/at most 7\.3 ms late .* much of the time/);
  });

  it('fails where one request got two answers at different loads', async () => {
    const run = (key: string) => ({ digests: { 1: key.startsWith('load 0.3, all canonical, round 1') ? 'x' : 'y' } });
    expect(online.result(await measured(study, run), study).failure).toMatch(/round 1, request 1$/);
  });
});

describe.skipIf(!cpu.available)(`an open loop${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`, () => {
  const requests = [5, 30, 12].map((length, i) => ({
    promptTokens: Array.from({ length }, (_, j) => 100 + 37 * i + j),
    outputTokens: 4 + 3 * i,
  }));

  async function overServer<T>(trace: readonly TraceRequest[], run: (url: string) => Promise<T>): Promise<T> {
    return inSmallStudy(async ({ engine }) => {
      const own = await engine({ policy: 'auto', limits: { maxWaiting: trace.length } });
      const server = await createServer({ engine: own, port: 0, limits: { resumeWindowMs: 0 } });
      try {
        return await run(server.url);
      } finally {
        await server.close();
      }
    });
  }

  it('sends requests at their times and times their answers from then on', async () => {
    const trace = traceOf(requests, { deterministicShare: 0.34, sampling: 'greedy', seed: 1 });
    const { signal } = new AbortController();
    const start = performance.now();
    const answers = await overServer(trace, (url) => runOpenLoop(url, trace, [0, 30, 90], signal));
    expect(performance.now() - start).toBeGreaterThan(90);
    expect(answers.map(({ deterministic }) => deterministic)).toEqual([false, true, false]);
    for (const { lagMs, firstTokenMs, endToEndMs, gapsMs, hash } of answers) {
      // Timers may be early by less than a millisecond.
      expect(lagMs).toBeGreaterThan(-1.5);
      expect(firstTokenMs).toBeGreaterThan(lagMs);
      expect(endToEndMs).toBeGreaterThanOrEqual(firstTokenMs);
      expect(gapsMs.reduce((sum, gap) => sum + gap, firstTokenMs)).toBeLessThanOrEqual(endToEndMs + 0.01);
      expect(hash).toMatch(/^[0-9a-f]+$/);
    }
  });

  it('ends with the signal, before what is still to be sent', async () => {
    const trace = traceOf(requests, { deterministicShare: 0, sampling: 'greedy', seed: 1 });
    const interrupt = new AbortController();
    await overServer(trace, async (url) => {
      const running = runOpenLoop(url, trace, [0, 50, 3_600_000], interrupt.signal);
      setTimeout(() => interrupt.abort(new Error('enough')), 100);
      await expect(running).rejects.toThrow('enough');
    });
  });

  it('rejects where a request is refused', async () => {
    const [first] = traceOf(requests, { deterministicShare: 0, sampling: 'greedy', seed: 1 });
    const trace = [{ ...first!, maxTokens: 5000 }];
    const { signal } = new AbortController();
    await overServer(trace, (url) =>
      expect(runOpenLoop(url, trace, [0], signal)).rejects.toThrow(/refused: STET_ERR_CONTEXT_LENGTH/),
    );
  });
});
