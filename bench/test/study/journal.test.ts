import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Journal } from '../../src/study/journal.js';

describe('the journal of a run', () => {
  const identity = { study: { size: 'quick' }, fingerprint: 'stet1-0' };
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stet-journal-'));
    file = join(folder, 'deeper', 'unfinished.jsonl');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('finds what an earlier run added, by scenario and key', () => {
    const journal = Journal.open(file, identity, false);
    journal.add('forward', 'decode 1', { ms: 1.5 });
    journal.add('spans', 'decode 1', [1, 'two', null]);
    const next = Journal.open(file, identity, false);
    expect(next.size).toBe(2);
    expect(next.find('forward', 'decode 1')).toEqual({ ms: 1.5 });
    expect(next.find('spans', 'decode 1')).toEqual([1, 'two', null]);
    expect(next.find('spans', 'decode 2')).toBeUndefined();
  });

  it('forgets a line that was cut short, and goes on behind the whole ones', () => {
    const journal = Journal.open(file, identity, false);
    journal.add('forward', 'one', 1);
    journal.add('forward', 'two', 2);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.slice(0, -6));
    const next = Journal.open(file, identity, false);
    expect([next.size, next.find('forward', 'one'), next.find('forward', 'two')]).toEqual([1, 1, undefined]);
    next.add('forward', 'two', 22);
    expect(Journal.open(file, identity, false).find('forward', 'two')).toBe(22);
    expect(readFileSync(file, 'utf8').trimEnd().split('\n').length).toBe(3);
  });

  it('keeps a last line that lacks no more than its end', () => {
    Journal.open(file, identity, false).add('forward', 'one', 1);
    writeFileSync(file, readFileSync(file, 'utf8').trimEnd());
    const next = Journal.open(file, identity, false);
    next.add('forward', 'two', 2);
    expect(Journal.open(file, identity, false).size).toBe(2);
  });

  it('trusts nothing behind a line that is none', () => {
    Journal.open(file, identity, false).add('forward', 'one', 1);
    appendFileSync(file, `{"scenario\n${JSON.stringify({ scenario: 'forward', key: 'two', measure: 2 })}\n`);
    const next = Journal.open(file, identity, false);
    expect([next.size, next.find('forward', 'two')]).toEqual([1, undefined]);
  });

  it('begins anew for another study, model or machine', () => {
    Journal.open(file, identity, false).add('forward', 'one', 1);
    expect(Journal.open(file, { ...identity, fingerprint: 'stet1-1' }, false).size).toBe(0);
    expect(Journal.open(file, identity, false).size).toBe(0);
  });

  it('begins anew where it is told to', () => {
    Journal.open(file, identity, false).add('forward', 'one', 1);
    expect(Journal.open(file, identity, true).size).toBe(0);
    expect(Journal.open(file, identity, false).size).toBe(0);
  });
});
