import type { Backend, BackendLoad } from '@stet/backend';
import { createFakeBackend, type FakeBackend, type FakeBackendOptions, fakeLoad } from '@stet/testing';
import { composeBackends } from '../../src/index.js';

export interface ComposedFakes {
  readonly backend: Backend;
  readonly fast: FakeBackend;
  readonly canonical: FakeBackend;
  readonly load: BackendLoad;
}

/** The fast part has another toy model than the canonical one, so that K/V of the one is of no use to the other. */
export const FAST_SEED = 1;
export const CANONICAL_SEED = 2;

/** Two fakes as one backend; blocks of 4 positions, so that little is enough to cross their borders. */
export async function composeFakes(
  sizes: Partial<Pick<BackendLoad, 'blockSize' | 'blockCount' | 'maxRows'>> = {},
  options: { fast?: FakeBackendOptions; canonical?: FakeBackendOptions } = {},
): Promise<ComposedFakes> {
  const load = fakeLoad({ vocabSize: 32, contextLength: 64, blockSize: 4, blockCount: 40, maxRows: 16, ...sizes });
  const made: { fast?: FakeBackend; canonical?: FakeBackend } = {};
  const backend = await composeBackends({
    fast: async (given) => {
      made.fast = await createFakeBackend({ seed: FAST_SEED, ...options.fast })(given);
      return made.fast;
    },
    canonical: async (given) => {
      made.canonical = await createFakeBackend({ seed: CANONICAL_SEED, ...options.canonical })(given);
      return made.canonical;
    },
  })(load);
  return { backend, fast: made.fast!, canonical: made.canonical!, load };
}
