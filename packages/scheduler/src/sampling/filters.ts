import { exp } from '@stet/backend/numerics';

/**
 * Filters over candidates in two columns: `ids` ascending, `values` their scaled logits, `largest` the largest of
 * them. Each keeps some, compacts the columns in place in the same order and returns how many stay. Rank is by value,
 * the lower id first among equals.
 */

/** Keeps the k best. */
export function keepTopK(ids: Int32Array, values: Float64Array, count: number, k: number, largest: number): number {
  if (k >= count) return count;
  let sorted = sortFrom(values, count, largest - DEPTHS[0]!);
  for (let i = 1; sorted.length < k; i++) sorted = sortFrom(values, count, largest - DEPTHS[i]!);
  return keepBest(ids, values, count, sorted, k);
}

/** Keeps the fewest best whose share of all the probability reaches p; at least one. */
export function keepTopP(ids: Int32Array, values: Float64Array, count: number, p: number, largest: number): number {
  let total = 0;
  for (let i = 0; i < count; i++) total += exp(values[i]! - largest);
  for (const depth of DEPTHS) {
    const sorted = sortFrom(values, count, largest - depth);
    const kept = countReaching(sorted, p * total, largest);
    if (kept !== undefined) return keepBest(ids, values, count, sorted, kept);
  }
  // Rounding: all of them, summed in this order, do not reach a share that is nearly 1.
  return count;
}

/** How far below the largest value to look: sorting a few is quicker than sorting a vocabulary, and the result is the same. */
const DEPTHS = [2, 6, 14, Number.POSITIVE_INFINITY];

/** The values from `floor` on, ascending. */
function sortFrom(values: Float64Array, count: number, floor: number): Float64Array {
  const sorted = new Float64Array(count);
  let length = 0;
  for (let i = 0; i < count; i++) if (values[i]! >= floor) sorted[length++] = values[i]!;
  return sorted.subarray(0, length).sort();
}

function countReaching(sorted: Float64Array, wanted: number, largest: number): number | undefined {
  let sum = 0;
  for (let kept = 1; kept <= sorted.length; kept++) {
    sum += exp(sorted[sorted.length - kept]! - largest);
    if (sum >= wanted) return kept;
  }
  return undefined;
}

/** Keeps `kept` candidates: those above the last value that is kept, and of its equals the ones of lowest id. */
function keepBest(ids: Int32Array, values: Float64Array, count: number, sorted: Float64Array, kept: number): number {
  const last = sorted[sorted.length - kept]!;
  let equals = kept;
  for (let i = sorted.length - 1; sorted[i]! > last; i--) equals--;
  let length = 0;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    if (value < last || (value === last && equals-- <= 0)) continue;
    ids[length] = ids[i]!;
    values[length++] = value;
  }
  return length;
}
