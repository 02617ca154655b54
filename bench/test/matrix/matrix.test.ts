import { describe, expect, it } from 'vitest';
import type { MatrixMeasure } from '../../src/matrix/cells.js';
import { matrix } from '../../src/matrix/matrix.js';
import type { Study } from '../../src/study/study.js';
import { answer, answers, step } from './answers.js';

const study: Study = { size: 'quick', model: 'tales', backend: 'cpu', fast: 'native', threads: 2, seed: 42 };
const units = await matrix.units(study);
const same = answers([answer([step(1), step(2)])]);
const flipped = answers([answer([step(1), step(3)])]);
const CANONICAL = 'CPU avx2: canonical, bf16, dvr(4), batch 4, chunks of 16, 4 threads';
const GAP_ROW = { firstDifference: { request: 0, token: 1 }, gap: 0.25 };

/** The result where every unit measured the same, but for those that the function gives something else for. */
function resultOf(other: (key: string) => MatrixMeasure | undefined = () => undefined) {
  const result = matrix.result(new Map(units.map(({ key }) => [key, other(key) ?? same])), study);
  const { rows } = result.json as unknown as { rows: Record<string, unknown>[] };
  return { ...result, rows, text: result.findings.join('\n') };
}

describe('the matrix', () => {
  it('has a row for every backend and schedule, and finds equal ones equal', () => {
    const { rows, failure, text } = resultOf();
    expect(failure).toBeUndefined();
    expect(rows).toHaveLength(units.length);
    expect(rows.every(({ equalTokens, equalLogprobs }) => equalTokens === true && equalLogprobs === true)).toBe(true);
    expect(rows[0]).toEqual({
      ...{ backend: 'reference', schedule: 'canonical, bf16, direct, batch 1', baseline: true },
      ...{ equalTokens: true, equalLogprobs: true, firstDifference: null, gap: null },
    });
    expect(rows.filter(({ baseline }) => baseline)).toHaveLength(3);
    const compared = rows.filter(({ schedule, baseline }) => String(schedule).startsWith('canonical') && !baseline);
    expect(text).toContain(
      `those of reference in every token and every bit of their log-probabilities: ${compared.length} of ${compared.length} runs`,
    );
    for (const backend of ['CPU scalar', 'CPU avx512', 'WebGPU in Node', 'WebGPU in Chromium', 'WebGPU+CPU'])
      expect(text).toContain(backend);
  });

  it('fails where one deterministic answer has another token, and says where, what and by how much', () => {
    const { rows, failure, text } = resultOf((key) => (key === CANONICAL ? flipped : undefined));
    expect(failure).toBe(`${CANONICAL.replace(':', ',')}: request 0, token 1: ${step(3)}, in the baseline ${step(2)}`);
    expect(rows.filter(({ equalTokens }) => equalTokens === false)).toEqual([
      { backend: 'CPU avx2', schedule: CANONICAL.split(': ')[1], equalTokens: false, equalLogprobs: false, ...GAP_ROW },
    ]);
    expect(text).toContain('Deterministic answers differ from those of reference in 1 of');
  });

  it('fails for other bits of a log-probability, another fingerprint, and a backend that breaks', () => {
    const bits = answers([answer([step(1), step(2, { logprob: -0.4999999999999999 })])]);
    const model = answers([...same.answers], { fingerprint: 'g' });
    const broken: MatrixMeasure = { kind: 'failed', error: 'STET_ERR_DEVICE_LOST: it went' };
    for (const [measure, words] of [
      [bits, 'request 0, token 1'],
      [model, 'fingerprint g, that of the baseline is f'],
      [broken, 'STET_ERR_DEVICE_LOST: it went'],
    ] as const)
      expect(resultOf((key) => (key === CANONICAL ? measure : undefined)).failure).toContain(words);
  });

  it('tells where ordinary answers differ, from deterministic ones and from themselves alone, and does not fail', () => {
    const crowd = 'CPU batch-shaped: fast, bf16, batch 16, 4 threads';
    expect(units.map(({ key }) => key)).toContain(crowd);
    const { failure, text, tables, rows } = resultOf((key) => (key === crowd ? flipped : undefined));
    expect(failure).toBeUndefined();
    expect(rows.find(({ equalTokens }) => equalTokens === false)).toMatchObject({
      backend: 'CPU batch-shaped',
      ...GAP_ROW,
    });
    expect(text).toContain('at least 0.25 and at most 0.25 apart');
    expect(text).toContain(
      'On CPU batch-shaped, ordinary answers in company were others than alone: in bits in 1 of 2 runs',
    );
    expect(tables.at(-1)!.rows).toEqual([
      {
        ...{ backend: 'CPU batch-shaped', schedule: crowd.split(': ')[1] },
        ...{ 'first other token': 'request 0, token 1', 'gap there': 0.25 },
      },
    ]);
  });

  it('tells which backends are not there, and why', () => {
    const reason = 'there is no Chromium';
    const { failure, text, rows, tables } = resultOf((key) =>
      key.includes('in Chromium') ? { kind: 'skipped', reason } : undefined,
    );
    expect(failure).toBeUndefined();
    expect(text).toContain(`WebGPU in Chromium was skipped: ${reason}.`);
    const skipped = rows.filter(({ backend }) => String(backend).includes('in Chromium'));
    expect(skipped.length).toBeGreaterThan(0);
    for (const row of skipped) expect(row).toMatchObject({ equalTokens: null, equalLogprobs: null, skipped: reason });
    expect(tables[1]!.rows[0]).not.toHaveProperty('WebGPU in Chromium');
  });

  it('says when there is nothing but the reference, and takes the next backend where there is none', () => {
    const alone = 'reference: canonical, bf16, direct, batch 1';
    const reason = 'not there';
    expect(resultOf((key) => (key === alone ? undefined : { kind: 'skipped', reason })).text).toContain(
      'Nothing could be compared: only reference is there.',
    );
    const { text, failure } = resultOf((key) =>
      key.startsWith('CPU') ? undefined : { kind: 'skipped', reason: 'it would take too long' },
    );
    expect(failure).toBeUndefined();
    expect(text).toContain('Deterministic answers are those of CPU scalar');
    expect(text).toContain('reference was skipped: it would take too long.');
  });
});
