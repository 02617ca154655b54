import { seededUniform } from '../random.js';

/** Where an answer is when something happens to its connection. */
export const moments = ['asked', 'accepted', 'prefill', 'candidates', 'rollback', 'commits'] as const;
export type Moment = (typeof moments)[number];

/** What happens. `slow`: the client does not read for a while, and then goes on. */
export const faults = ['terminate', 'close', 'half-open', 'cancel', 'slow'] as const;
export type Fault = (typeof faults)[number];

/** What the client then does about the rest of the answer. */
export const returns = ['resume', 'regenerate', 'none'] as const;
export type Return = (typeof returns)[number];

export interface Incident {
  readonly moment: Moment;
  readonly fault: Fault;
  readonly way: Return;
  /** Which of the known requests. */
  readonly request: number;
  /** Ordinary streams beside it on the same socket. */
  readonly sideStreams: number;
  /** Commits before the fault, where that is the moment. */
  readonly commits: number;
  readonly pauseMs: number;
}

/** Incident `index` of a run: every moment meets every fault, and the rest is drawn. */
export function incidentAt(index: number): Incident {
  const uniform = seededUniform(0xc4a05 + index);
  const draw = (count: number) => Math.floor(uniform() * count);
  return {
    moment: moments[index % moments.length]!,
    fault: faults[Math.floor(index / moments.length) % faults.length]!,
    way: returns[draw(returns.length)]!,
    request: draw(1000),
    sideStreams: draw(3),
    commits: 1 + draw(4),
    pauseMs: draw(300),
  };
}
