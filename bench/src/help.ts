import { benchmarks, commandNames } from './commands.js';
import { usage } from './options.js';
import { scenarios } from './scenarios/index.js';

/** One line for each name, for whoever asks. */
export function helpText(program: string): string {
  const lines: readonly (readonly [name: string, about: string])[] = [
    ['quick', 'all scenarios below, few and short: minutes'],
    ['figures', 'all scenarios below in full'],
    ...scenarios.map(({ name, question }) => [name, question] as const),
    [Object.keys(benchmarks).join(', '), 'benchmarks of one part, see bench/README.md'],
    ['report FILE…', 'the report of results, made anew; of several files the comparison with the paper'],
    ['compare A B', 'what changed from A to B, two files of results of one study'],
  ];
  const width = Math.max(...lines.map(([name]) => (name.length < 20 ? name.length : 0)));
  return [`${program} NAME ${usage}`, '', ...lines.map(([name, about]) => `  ${name.padEnd(width)}  ${about}`)].join(
    '\n',
  );
}

/** For arguments that mean nothing. */
export function usageLine(program: string): string {
  return `usage: ${program} ${commandNames.join('|')} ${usage}`;
}
