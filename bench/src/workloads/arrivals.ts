import { seededUniform } from '../random.js';

/** `at once`: the infinite rate of offline benchmarks. `poisson`: gaps are exponential with a mean of 1 / qps seconds. */
export type Arrival = { readonly kind: 'at once' } | { readonly kind: 'poisson'; readonly qps: number };

/** When each of `count` requests is sent, in ms after the first, ascending. */
export function arrivalTimes(arrival: Arrival, count: number, seed: number): number[] {
  if (arrival.kind === 'at once') return Array.from({ length: count }, () => 0);
  const uniform = seededUniform(seed);
  const meanMs = 1000 / arrival.qps;
  let now = 0;
  return Array.from({ length: count }, (_, i) => {
    if (i > 0) now += -Math.log(1 - uniform()) * meanMs;
    return now;
  });
}
