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
    run: async (workload: { readonly name: string }) => {
      turns.push(`${workload.name} ${name}`);
      return ++clock;
    },
  }));
  const rates = await takeTurns(contenders, workloads, rounds, () => {});
  return { turns, rates };
}

describe('takeTurns', () => {
  it('gives each workload to all contenders before the next, from another one on in every round', async () => {
    const { turns } = await turnsOf(['a', 'b'], 1);
    expect(turns.slice(0, 4)).toEqual(['prefill512 a', 'prefill512 b', 'decode1 a', 'decode1 b']);
    expect(turns.slice(8, 12)).toEqual(['prefill512 b', 'prefill512 a', 'decode1 b', 'decode1 a']);
  });

  it('does not count the round that warms up', async () => {
    const { rates } = await turnsOf(['a', 'b'], 2);
    expect(rates.get('a')!.get('prefill512')).toEqual([10, 17]);
    expect(rates.get('b')!.get('decode16')).toEqual([15, 24]);
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
    expect(ratiosOf(ours, theirs)).toEqual({ prefill512: 4, decode1: 4, decode8: 4, decode16: 4 });
  });
});
