import { describe, expect, it } from 'vitest';
import { takeTurns } from '../../src/peers/contender.js';
import { figureRow, figuresOf, ratiosOf } from '../../src/peers/report.js';
import { workloadsOf } from '../../src/peers/workloads.js';

const workloads = workloadsOf(
  Array.from({ length: 600 }, (_, i) => i),
  4,
);

async function turnsOf(names: readonly string[], rounds: number) {
  const turns: string[] = [];
  let clock = 0;
  const contenders = names.map((name) => ({
    name,
    kind: 'ours' as const,
    run: async (workload: { readonly name: string }) => {
      turns.push(`${workload.name} ${name}`);
      return ++clock;
    },
  }));
  const { rates } = await takeTurns(contenders, workloads, rounds, () => {});
  return { turns, rates };
}

describe('takeTurns', () => {
  it('gives each workload to all contenders before the next, from another one on in every round', async () => {
    const { turns } = await turnsOf(['a', 'b'], 1);
    expect(turns.slice(0, 4)).toEqual(['prefill512 a', 'prefill512 b', 'prefill1x128 a', 'prefill1x128 b']);
    expect(turns.slice(16, 20)).toEqual(['prefill512 b', 'prefill512 a', 'prefill1x128 b', 'prefill1x128 a']);
  });

  it('does not count the round that warms up', async () => {
    const { rates } = await turnsOf(['a', 'b'], 2);
    expect(rates.get('a')!.get('prefill512')).toEqual([18, 33]);
    expect(rates.get('b')!.get('decode16')).toEqual([31, 48]);
  });

  it('goes on without a peer that fails, with a line that says why, and counts none of its rounds', async () => {
    let runs = 0;
    const peer = {
      name: 'peer',
      kind: 'peer' as const,
      run: async () => {
        runs += 1;
        if (runs > workloads.length + 1) throw new Error('out of memory');
        return 1;
      },
    };
    const lines: string[] = [];
    const ours = { name: 'ours', kind: 'ours' as const, run: async () => 2 };
    const { rates, failed } = await takeTurns([ours, peer], workloads, 3, (line) => lines.push(line));
    expect([...rates.keys()]).toEqual(['ours']);
    expect(rates.get('ours')!.get('decode16')).toEqual([2, 2, 2]);
    expect([...failed]).toEqual([['peer', 'out of memory']]);
    expect(lines.filter((line) => line.includes('SKIPPED'))).toEqual(['SKIPPED peer: out of memory']);
    expect(runs).toBe(workloads.length + 2);
  });

  it('ends where ours fails', async () => {
    const ours = { name: 'ours', kind: 'ours' as const, run: () => Promise.reject(new Error('a mistake')) };
    await expect(takeTurns([ours], workloads, 1, () => {})).rejects.toThrow('a mistake');
  });
});

describe('figures', () => {
  const rates = (...values: number[]) => new Map(workloads.map(({ name }) => [name, values] as const));
  const ours = figuresOf(rates(30, 10, 20));
  const theirs = figuresOf(rates(8, 5, 4));

  it('state median and best', () => {
    expect(ours.decode8).toEqual({ median: 20, best: 30, rounds: [30, 10, 20] });
    expect(figureRow('ours', ours)).toMatchObject({ contender: 'ours', prefill512: '20 (30)' });
  });

  it('are compared by their medians', () => {
    const ratios = ratiosOf(ours, theirs);
    expect(Object.keys(ratios)).toEqual(workloads.map(({ name }) => name));
    expect(new Set(Object.values(ratios))).toEqual(new Set([4]));
  });
});
