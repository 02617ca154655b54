import { cpuFeatures } from '@stet/backend-cpu';
import { describe, expect, it } from 'vitest';
import { offline } from '../../src/scenarios/offline.js';
import type { OfflineMeasure } from '../../src/scenarios/offline-cases.js';
import type { Unit } from '../../src/study/scenario.js';
import { runTrace, type TraceRun } from '../../src/workloads/run-trace.js';
import { traceOf } from '../../src/workloads/trace.js';
import type { WorkloadFigures } from '../../src/workloads/workload.js';
import { inSmallStudy, study } from './support/small-study.js';

const cpu = cpuFeatures();
const units = (await offline.units(study)) as readonly Unit<OfflineMeasure>[];
const lengths = { mean: 100.5, p50: 90, p90: 200, max: 300 };
const workload: WorkloadFigures = {
  kind: 'sharegpt',
  description: 'what it is',
  requests: 32,
  promptTokens: lengths,
  outputTokens: lengths,
};
const run: TraceRun = {
  seconds: 1,
  promptTokens: 300,
  outputTokens: 200,
  deterministicTokens: 100,
  windows: 7,
  rollbacks: 1,
  recomputedTokens: 2,
  digests: { 3: 'abcd' },
};

function measured(change: (key: string) => Partial<TraceRun>): Map<string, OfflineMeasure> {
  return new Map(
    units.map(({ key }): [string, OfflineMeasure] => [
      key,
      key.endsWith('workload') ? workload : { ...run, ...change(key) },
    ]),
  );
}

describe('the units of offline', () => {
  it('have keys of their own, and warm each engine up once', () => {
    const keys = units.map(({ key }) => key);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.filter((key) => key.endsWith('round 0'))).toEqual([
      'sharegpt, 100 % auto, round 0',
      'sharegpt, 100 % dvr, round 0',
      'sharegpt, 100 % direct, round 0',
    ]);
  });

  it('of a full study leave no share without a request, and are refused where they would', async () => {
    const full = { ...study, size: 'full' } as const;
    expect((await offline.units(full)).length).toBe(3 + 9 + 5 * 3 * 3 * 7);
    expect(() => offline.units({ ...full, requests: 24 })).toThrow(/2 % of 24 requests is none: give --requests 25/);
  });
});

describe('the result of offline', () => {
  it('holds a case against equal requests of its round, however slow the round was', () => {
    const { tables, comparisons } = offline.result(
      measured((key) => {
        const slow = key.endsWith('round 2') ? 10 : 1;
        return { seconds: slow / (key.includes('100 % direct') ? 0.5 : 1) };
      }),
      study,
    );
    expect(tables[0]!.rows).toEqual([
      expect.objectContaining({ policy: 'auto', 'tokens/s without any': 500, '0 %': 1, '100 %': 1 }),
      expect.objectContaining({ policy: 'dvr', '100 %': 1 }),
      expect.objectContaining({ policy: 'direct', '50 %': 1, '100 %': 0.5 }),
    ]);
    const detail = tables[1]!.rows.find((row) => row.policy === 'direct' && row['deterministic %'] === 100);
    expect(detail).toMatchObject({ 'over none': 0.5, least: 0.5, most: 0.5, 'out tokens/s': 100, 'recomputed %': 2 });
    expect(comparisons!.filter(({ ours }) => ours === 0.5).map(({ theirs }) => theirs)).toEqual([0.82, 0.641]);
  });

  it('takes the middle of the runs without deterministic requests as what others are held against', () => {
    const { tables, findings } = offline.result(
      measured((key) => ({ seconds: key.startsWith('sharegpt, 0 % auto') ? 9 : 1 })),
      study,
    );
    expect(tables[0]!.rows[0]).toMatchObject({ policy: 'auto', '0 %': 0.11, '10 %': 1 });
    expect(findings.join(' ')).toMatch(/lie between 0\.11 and 1\.00 of each other's middle/);
  });

  it('fails where one request got two answers', () => {
    expect(
      offline.result(
        measured(() => ({})),
        study,
      ).failure,
    ).toBeUndefined();
    const { failure, findings } = offline.result(
      measured((key) => (key === 'sharegpt, 50 % dvr, round 2' ? { digests: { 3: 'abce' } } : {})),
      study,
    );
    expect(failure).toBe('answers to a deterministic request differ: sharegpt, round 2, request 3');
    expect(findings.at(-1)).toMatch(/1 of 3 deterministic requests got answers that differ/);
  });
});

describe.skipIf(!cpu.available)(`a trace${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`, () => {
  it('is answered whole, with equal answers to its deterministic requests at any share and policy', async () => {
    const requests = [5, 40, 12, 9].map((length, i) => ({
      promptTokens: Array.from({ length }, (_, j) => 100 + 37 * i + j),
      outputTokens: 4 + 3 * i,
    }));
    const options = { sampling: 'half', seed: 1 } as const;
    const [half, all, direct] = await inSmallStudy(async ({ engine, signal }) => {
      const auto = await engine({ policy: 'auto' });
      return [
        await runTrace(auto, traceOf(requests, { ...options, deterministicShare: 0.5 }), signal),
        await runTrace(auto, traceOf(requests, { ...options, deterministicShare: 1 }), signal),
        await runTrace(
          await engine({ policy: 'direct' }),
          traceOf(requests, { ...options, deterministicShare: 1 }),
          signal,
        ),
      ];
    });
    expect(half).toMatchObject({ promptTokens: 66, outputTokens: 34, deterministicTokens: 7 + 13 });
    expect(Object.keys(half!.digests)).toEqual(['1', '3']);
    expect(all).toMatchObject({ outputTokens: 34, deterministicTokens: 34 });
    expect(all!.digests).toEqual(direct!.digests);
    expect(all!.digests).toMatchObject(half!.digests);
  });

  it('ends with the signal', async () => {
    const requests = [{ promptTokens: [1, 2, 3], outputTokens: 500 }];
    const trace = traceOf(requests, { deterministicShare: 0, sampling: 'greedy', seed: 1 });
    await inSmallStudy(async ({ engine }) => {
      const auto = await engine({ policy: 'auto' });
      const interrupt = new AbortController();
      const running = runTrace(auto, trace, interrupt.signal);
      interrupt.abort();
      await expect(running).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    });
  });
});
