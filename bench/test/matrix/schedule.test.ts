import { describe, expect, it } from 'vitest';
import { matrixBackends } from '../../src/matrix/backend-names.js';
import { askedRequests, type RequestModel, workOf } from '../../src/matrix/requests.js';
import { isAlone, schedulesOf, scheduleWords } from '../../src/matrix/schedule.js';
import { textNames } from '../../src/texts.js';

const model: RequestModel = {
  texts: new Map(textNames.map((name, at) => [name, Array.from({ length: 400 }, (_, i) => (at * 31 + i) % 97)])),
  vocabSize: 97,
  contextLength: 1024,
};
const sizes = ['quick', 'full'] as const;

describe('schedules of the matrix', () => {
  it.each(sizes)('begin, in a %s run, with what all others are held against, and have names of their own', (size) => {
    const reference = schedulesOf('reference', { size });
    expect(isAlone(reference[0]!)).toBe(true);
    for (const format of ['bf16', 'q8', 'q4'])
      for (const backend of ['reference', 'CPU scalar'] as const)
        expect(schedulesOf(backend, { size }).find((one) => one.format === format && isAlone(one))).toBeDefined();
    for (const backend of matrixBackends) {
      const words = schedulesOf(backend, { size }).map(scheduleWords);
      expect(new Set(words).size).toBe(words.length);
    }
  });

  it.each(sizes)(
    'try, in a %s run, every number of threads, batches, windows, chunks and the prefix cache on a CPU',
    (size) => {
      const canonical = schedulesOf('CPU avx2', { size }).filter(({ rows }) => rows === 'canonical');
      const values = (of: (one: (typeof canonical)[number]) => unknown) => new Set(canonical.map(of));
      expect(values(({ threads }) => threads)).toEqual(new Set([1, 2, 4]));
      expect(values(({ batch }) => batch)).toEqual(new Set([1, 4, 16]));
      expect(values(({ policy }) => JSON.stringify(policy))).toEqual(
        new Set(['"direct"', '"auto"', '{"dvr":4}', '{"dvr":16}']),
      );
      expect(values(({ prefixCache }) => prefixCache)).toEqual(new Set(['on', 'off']));
      expect(values(({ maxRows }) => maxRows).size).toBe(2);
    },
  );

  it('are told in words', () => {
    const [first] = schedulesOf('CPU avx2', { size: 'quick' });
    expect(scheduleWords({ ...first!, policy: { dvr: 16 }, batch: 16, threads: 2 })).toBe(
      'canonical, bf16, dvr(16), batch 16, 2 threads',
    );
  });
});

describe('the work of a schedule', () => {
  const asked = askedRequests(model, 8);

  it('asks everybody once and fills every batch with others', () => {
    for (const backend of matrixBackends)
      for (const schedule of schedulesOf(backend, { size: 'full' })) {
        const { groups } = workOf(schedule, asked, model, 42);
        const all = groups.flatMap((group) => group.asked);
        expect(all).toEqual(
          asked.slice(0, schedule.requests).map((one) => ({ ...one, deterministic: schedule.rows === 'canonical' })),
        );
        for (const group of groups) expect(group.asked.length + group.beside.length).toBe(schedule.batch);
      }
  });

  it('is the same for the same seed alone', () => {
    const schedule = schedulesOf('CPU avx2', { size: 'quick' }).find(({ batch }) => batch === 16)!;
    expect(workOf(schedule, asked, model, 42)).toEqual(workOf(schedule, asked, model, 42));
    expect(workOf(schedule, asked, model, 42)).not.toEqual(workOf(schedule, asked, model, 43));
  });
});
