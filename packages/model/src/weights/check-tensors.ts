import { type Plan, StetError } from '@stet/backend';
import { quote } from '../files/quote.js';
import { storedRows } from './stored-rows.js';
import type { StoredTensor, WeightPlaces } from './stored-tensor.js';

/** Most tensors that an error lists. */
const MAX_LISTED = 3;

/**
 * Every weight of the plan is there, and nothing is left over that would have changed what the model computes, but what
 * `isIdle` knows to be without effect. Throws `STET_ERR_MISSING_TENSOR` or `STET_ERR_BAD_TENSOR`.
 */
export function checkTensors(
  plan: Plan,
  tensors: ReadonlyMap<string, StoredTensor>,
  places: WeightPlaces,
  isIdle: (name: string) => boolean,
): void {
  const used = new Set<string>();
  for (const spec of plan.weights) used.add(storedRows(spec, tensors, places).tensor.name);
  const unknown = [...tensors.values()].filter(({ name }) => !used.has(name) && !isIdle(name));
  if (unknown.length === 0) return;
  const listed = unknown.slice(0, MAX_LISTED).map(({ name }) => quote(name));
  const more = unknown.length > MAX_LISTED ? ` and ${unknown.length - MAX_LISTED} more` : '';
  throw new StetError(
    'STET_ERR_BAD_TENSOR',
    `${unknown[0]!.file} has tensors that ${plan.architecture} with this config has no use for: ${listed.join(', ')}${more}`,
  );
}
