import { createHash } from 'node:crypto';
import { formatsOf, type Plan } from '@stet/backend';
import type { Addon } from '../addon.js';
import { packingId } from './packing.js';

export interface PackedIdentity {
  /** Equal for loads whose packed weights are equal, byte by byte, and for those alone. */
  readonly key: string;
  /** What a file of them is called: the hash of the key. */
  readonly name: string;
}

/** What the packed weights of a plan are on a table of kernels; takes a few milliseconds. */
export function packedIdentity(addon: Addon, kernels: number, plan: Plan, weightsKey: string): PackedIdentity {
  const packing = packingId(addon, kernels, formatsOf(plan));
  const weights = plan.weights.map((spec) =>
    spec.kind === 'vector' ? [spec.name, spec.role, spec.size] : [spec.name, spec.format, spec.rows, spec.columns],
  );
  const key = JSON.stringify({ weightsKey, packing, weights });
  return { key, name: createHash('sha256').update(key).digest('hex').slice(0, 40) };
}
