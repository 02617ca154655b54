import type { WeightFormat } from '../plan.js';

/** Tests that a backend cannot pass, and why; shown with the results. */
export interface Skip {
  readonly reason: string;
  /** Full names, `group: sentence`. */
  readonly tests: readonly string[];
}

/** Why something that needs these formats is skipped for a backend that has those of `has`; undefined where it has all. */
export function formatReason(needs: readonly WeightFormat[], has: readonly WeightFormat[]): string | undefined {
  const missing = needs.filter((format) => !has.includes(format));
  return missing.length === 0 ? undefined : `the backend has no ${missing.join(' and no ')}`;
}

/** The reason for each skipped test; throws if a name is unknown or given twice, so that no skip outlives its test. */
export function skipReasons(skips: readonly Skip[], names: readonly string[]): ReadonlyMap<string, string> {
  const known = new Set(names);
  const reasons = new Map<string, string>();
  for (const { reason, tests } of skips) {
    if (reason.trim() === '') throw new Error(`tests are skipped without a reason: ${tests.join('; ')}`);
    for (const test of tests) {
      if (!known.has(test)) throw new Error(`skip names the unknown test ${JSON.stringify(test)}`);
      if (reasons.has(test)) throw new Error(`skip names the test ${JSON.stringify(test)} twice`);
      reasons.set(test, reason);
    }
  }
  return reasons;
}
