/** Nearest rank: the smallest value that at least `quantile` of all values do not exceed. `quantile` is in 0 .. 1. */
export function percentile(values: readonly number[], quantile: number): number {
  if (values.length === 0) throw new RangeError('percentile of no values');
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(1, Math.ceil(quantile * sorted.length)) - 1]!;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** For tables: rounded to so many decimals. */
export function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}

/** Of the rounds of one case. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) };
}
