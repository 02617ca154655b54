import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Progress } from '../../src/study/progress.js';
import { runStudy } from '../../src/study/run-study.js';
import { interleaved, type Scenario } from '../../src/study/scenario.js';
import type { Study } from '../../src/study/study.js';

const study: Study = { size: 'quick', model: 'tales', backend: 'reference', fast: 'native', threads: 1, seed: 42 };

/** Measures how often it was asked to, in place of time. */
class FakeScenario {
  readonly runs: string[] = [];
  /** Called in a unit, before it returns. */
  onUnit: (key: string) => void = () => {};

  readonly scenario: Scenario<number> = {
    name: 'fake',
    title: 'A fake',
    question: 'How often?',
    units: () =>
      interleaved(['a', 'b'], 1, (one, round) => ({
        key: `${one}, round ${round}`,
        seconds: 1,
        run: async ({ model }) => {
          this.runs.push(`${one}, round ${round}`);
          this.onUnit(`${one}, round ${round}`);
          return this.runs.length + model.contextLength;
        },
      })),
    result: (measures) => ({
      workload: 'none',
      findings: [`There are ${measures.size} measures.`],
      tables: [{ title: 'All', rows: [...measures].map(([key, value]) => ({ key, value })) }],
      charts: [],
    }),
  };
}

class RecordedProgress implements Progress {
  readonly events: string[] = [];
  begin(total: number, done: number): void {
    this.events.push(`begin ${done}/${total}`);
  }
  unit(title: string): void {
    this.events.push(title);
  }
  done(seconds: number): void {
    this.events.push(`done ${seconds}`);
  }
  log(line: string): void {
    this.events.push(line);
  }
  end(): void {
    this.events.push('end');
  }
}

describe('a study', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stet-study-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  async function run(fake: FakeScenario, { isFresh = false, interrupt = new AbortController() } = {}) {
    const progress = new RecordedProgress();
    const journal = join(folder, 'unfinished.jsonl');
    const scenarios: Scenario[] = [fake.scenario as Scenario];
    const file = runStudy({ scenarios, study, journal, isFresh, progress, signal: interrupt.signal });
    return { file: await file.catch((reason: unknown) => ({ reason })), events: progress.events };
  }

  it('runs all units in turn and says what it ran on', async () => {
    const fake = new FakeScenario();
    const { file, events } = await run(fake);
    expect(fake.runs).toEqual(['a, round 0', 'b, round 0', 'b, round 1', 'a, round 1']);
    expect(file).toMatchObject({
      schema: 'stet-study-1',
      study,
      model: { name: 'tales', fingerprint: expect.stringMatching(/^stet1-/), contextLength: 1024 },
      device: 'JavaScript',
      scenarios: [
        {
          name: 'fake',
          findings: ['There are 4 measures.'],
          measures: { 'a, round 0': 1025, 'b, round 0': 1026, 'b, round 1': 1027, 'a, round 1': 1028 },
        },
      ],
    });
    expect(events).toEqual(['begin 0/4', ...fake.runs.flatMap((key) => [`fake: ${key}`, 'done 1']), 'end']);
  });

  it('goes on after an interruption, without measuring twice and without the unit that was cut short', async () => {
    const fake = new FakeScenario();
    const interrupt = new AbortController();
    fake.onUnit = (key) => key === 'b, round 1' && interrupt.abort(new Error('stop'));
    const first = await run(fake, { interrupt });
    expect(first.file).toMatchObject({ reason: { message: 'stop' } });
    expect(first.events.at(-1)).toBe('end');
    fake.onUnit = () => {};
    const second = await run(fake);
    expect(fake.runs).toEqual(['a, round 0', 'b, round 0', 'b, round 1', 'b, round 1', 'a, round 1']);
    expect(second.events.slice(0, 2)).toEqual(['going on with an interrupted run: 2 units are done', 'begin 2/4']);
    expect(second.file).toMatchObject({
      scenarios: [{ measures: { 'a, round 0': 1025, 'b, round 0': 1026, 'b, round 1': 1028, 'a, round 1': 1029 } }],
    });
  });

  it('goes on after a unit that failed', async () => {
    const fake = new FakeScenario();
    fake.onUnit = (key) => {
      if (key === 'b, round 0') throw new Error('broken');
    };
    expect((await run(fake)).file).toMatchObject({ reason: { message: 'broken' } });
    fake.onUnit = () => {};
    await run(fake);
    expect(fake.runs).toEqual(['a, round 0', 'b, round 0', 'b, round 0', 'b, round 1', 'a, round 1']);
  });

  it('measures all again where it is told to begin anew', async () => {
    const fake = new FakeScenario();
    await run(fake);
    const { events } = await run(fake, { isFresh: true });
    expect(events[0]).toBe('begin 0/4');
    expect(fake.runs.length).toBe(8);
  });
});
