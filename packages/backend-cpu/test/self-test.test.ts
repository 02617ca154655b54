import { conformanceModels } from '@stet/backend/conformance';
import { describe, expect, it } from 'vitest';
import { type Addon, lookUpAddon } from '../src/addon.js';
import { createCpuBackend, liveBytes } from '../src/index.js';
import { checkCanonical } from '../src/self-test.js';
import { isas, withoutAddon } from './support/machine.js';

describe.skipIf(withoutAddon)('the self-test at start', () => {
  const [model] = conformanceModels();
  const load = { plan: model.plan, weights: model.weights, blockSize: 16, blockCount: 8, maxRows: 16 };

  it.each(isas)('passes on %s and leaves nothing behind', async (isa) => {
    const start = performance.now();
    const backend = await createCpuBackend({ isa })(load);
    console.info(`${isa}: first load with self-test took ${(performance.now() - start).toFixed(0)} ms`);
    await backend.close();
    expect(liveBytes()).toBe(0);
  });

  it('refuses a backend whose whole-model bits differ', async () => {
    const factory = createCpuBackend({ selfTest: false });
    const lookup = lookUpAddon();
    if (lookup.kind === 'unavailable') throw new Error('unreachable: the suite is skipped without the addon');
    // Another object than the addon, so that its result is not the one that was kept.
    const unknown: Addon = { ...lookup.addon };
    const flipped = checkCanonical(unknown, { isa: 'scalar', fast: 'native' }, async (options) => {
      const backend = await factory(options);
      return {
        info: backend.info,
        async forward(step) {
          const result = await backend.forward(step);
          if (result.canonical && result.canonical.logits.length > 0) result.canonical.logits[0] += 2 ** -20;
          return result;
        },
        close: () => backend.close(),
      };
    });
    await expect(flipped).rejects.toMatchObject({ code: 'STET_ERR_CANONICAL_REFUSED' });
  });
});
