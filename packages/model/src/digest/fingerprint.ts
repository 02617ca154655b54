import type { Plan } from '@stet/backend';
import { hashText } from './hasher.js';

export interface FingerprintParts {
  /** `LoadedModel.digest`. */
  readonly digest: string;
  /** With the format of each matrix in it. */
  readonly plan: Plan;
  /** `NUMERICS_ID`, or what stands in its place for a backend that has another arithmetic. */
  readonly numericsId: string;
  /** Version of the sampler: the same logits and seed must give the same token. */
  readonly samplerVersion: string;
  /** What else the bits depend on, e.g. backend, device and build of a `same-build` schedule. */
  readonly extra?: Readonly<Record<string, string>>;
}

/**
 * `stet1-` and 40 hex digits: two servers with the same fingerprint give the same answer to the same deterministic
 * request. Objects are hashed with their keys in order, numbers in JavaScript's shortest form, which is exact.
 */
export function fingerprint(parts: FingerprintParts): string {
  const { digest, plan, numericsId, samplerVersion, extra = {} } = parts;
  return `stet1-${hashText(canonicalJson({ digest, plan, numericsId, samplerVersion, extra })).slice(0, 40)}`;
}

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, entry: unknown) => {
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return entry;
    return Object.fromEntries(Object.entries(entry).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
