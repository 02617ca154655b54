import { exp } from '@stet/backend/numerics';

/**
 * Filters over candidates in two columns: `ids` ascending, `values` their scaled logits, `largest` the largest of
 * them. Each keeps some, compacts the columns in place in the same order and returns how many stay. Rank is by value,
 * the lower id first among equals.
 */

/** Keeps the k best. */
export function keepTopK(ids: Int32Array, values: Float64Array, count: number, k: number, largest: number): number {
  if (k >= count) return count;
  let ranked = rank(values, count, largest - DEPTHS[0]!);
  for (let i = 1; ranked.length < k; i++) ranked = rank(values, count, largest - DEPTHS[i]!);
  return keep(ids, values, ranked.subarray(0, k));
}

/** Keeps the fewest best whose share of all the probability reaches p; at least one. */
export function keepTopP(ids: Int32Array, values: Float64Array, count: number, p: number, largest: number): number {
  let total = 0;
  for (let i = 0; i < count; i++) total += exp(values[i]! - largest);
  for (const depth of DEPTHS) {
    const ranked = rank(values, count, largest - depth);
    const kept = prefixReaching(ranked, values, p * total, largest);
    if (kept !== undefined) return keep(ids, values, ranked.subarray(0, kept));
  }
  // Rounding: all of them, summed in this order, do not reach a share that is nearly 1.
  return count;
}

/** How far below the largest value to look: sorting a few is quicker than sorting a vocabulary, and the result is the same. */
const DEPTHS = [2, 6, 14, Number.POSITIVE_INFINITY];

function prefixReaching(ranked: Int32Array, values: Float64Array, wanted: number, largest: number): number | undefined {
  let sum = 0;
  for (let i = 0; i < ranked.length; i++) {
    sum += exp(values[ranked[i]!]! - largest);
    if (sum >= wanted) return i + 1;
  }
  return undefined;
}

/** Indices of the values from `floor` on, by falling value, ascending among equals. */
function rank(values: Float64Array, count: number, floor: number): Int32Array {
  const order = new Int32Array(count);
  let length = 0;
  for (let i = 0; i < count; i++) if (values[i]! >= floor) order[length++] = i;
  return order.subarray(0, length).sort((a, b) => values[b]! - values[a]! || a - b);
}

function keep(ids: Int32Array, values: Float64Array, indices: Int32Array): number {
  indices.sort();
  for (let i = 0; i < indices.length; i++) {
    const index = indices[i]!;
    ids[i] = ids[index]!;
    values[i] = values[index]!;
  }
  return indices.length;
}
