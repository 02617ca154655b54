import type { Canary } from './canary.js';
import type { SimulationReport } from './simulate.js';

/** Seed, step, request, the first difference, what led to it, and the command that replays it. */
export function describeFailure({ seed, failure }: SimulationReport, canary?: Canary): string {
  if (!failure) return `seed ${seed} has no violation`;
  const { step, requestId, message, stack, trace } = failure;
  const where = requestId === undefined ? '' : `, request ${requestId}`;
  const bug = canary === undefined ? '' : ` --bug ${canary}`;
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return [
    `seed ${seed} failed in step ${step}${where}: ${message}`,
    ...trace.map((line) => `    ${line.length > 160 ? `${line.slice(0, 157)}...` : line}`),
    ...frames.slice(0, 4),
    `  replay: npm run sim -- --seed ${seed}${bug}`,
  ].join('\n');
}
