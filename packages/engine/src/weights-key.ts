import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { NUMERICS_ID, type Plan } from '@stet/backend';
import type { LoadedModel } from '@stet/model';

/**
 * Raised where the same files come to give other weights, e.g. because a tensor type was decoded wrongly: what backends
 * have kept of them is then of no use.
 */
const READING_VERSION = 1;

/** What the weights of a model are, 64 hex digits: its files, and what the plan takes from them in which format. */
export function weightsKey({ digest, plan }: Pick<LoadedModel, 'digest' | 'plan'>): string {
  const key = { reading: READING_VERSION, numerics: NUMERICS_ID, digest, weights: plan.weights.map(specWords) };
  return bytesToHex(sha256(utf8ToBytes(JSON.stringify(key))));
}

function specWords(spec: Plan['weights'][number]): readonly (string | number)[] {
  return spec.kind === 'vector'
    ? [spec.kind, spec.name, spec.role, spec.size]
    : [spec.kind, spec.name, spec.format, spec.rows, spec.columns];
}
