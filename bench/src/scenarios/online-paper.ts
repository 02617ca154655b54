import { CANONICAL } from './online-cases.js';

export interface PaperRange {
  readonly source: string;
  /** Least and most over the rates. */
  readonly theirs: readonly [least: number, most: number];
}

interface PaperMix {
  /** Of the mix. */
  readonly title: string;
  readonly firstToken: PaperRange;
  readonly endToEnd: PaperRange;
}

const WHERE = 'Llama-3.1-8B on H100, 4 to 5.5 requests per second';

/**
 * Ratios to no deterministic requests at equal rate: the 99th percentile of the first token as figure 12 of the SOSP paper has it,
 * and that of the whole answer by the seconds of figure 11 (52, 66, 88 and 109 without any).
 */
export const onlinePaper: readonly PaperMix[] = [
  row('10 %', [1.2, 2], [65 / 52, 77 / 66, 112 / 88, 125 / 109]),
  row('20 %', [1.6, 3.7], [72 / 52, 104 / 66, 128 / 88, 142 / 109]),
  row('50 %', [4.9, 11.4], [119 / 52, 148 / 66, 180 / 88, 194 / 109]),
  row('100 %', [10.4, 24.7], [166 / 52, 200 / 66, 226 / 88, 256 / 109]),
  row(CANONICAL.title, [3.8, 6.9], [107 / 52, 128 / 66, 148 / 88, 165 / 109]),
];

function row(title: string, firstToken: readonly [number, number], endToEnd: readonly number[]): PaperMix {
  return {
    title,
    firstToken: { source: `SOSP, figure 12, ${WHERE}`, theirs: firstToken },
    endToEnd: { source: `SOSP, figure 11, ${WHERE}`, theirs: [Math.min(...endToEnd), Math.max(...endToEnd)] },
  };
}
