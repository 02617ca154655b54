import { describe, it } from 'vitest';
import type { BackendFactory } from '../port.js';
import { caseName, conformanceSuite, runCase } from './case.js';
import { conformanceCases } from './cases/index.js';
import { type ConformanceModel, conformanceModels } from './models.js';
import { type Skip, skipReasons } from './skip.js';

export interface TestBackendOptions {
  /** Title of the suite; default `a backend`. */
  readonly name?: string;
  readonly skip?: readonly Skip[];
  /** Bytes that all backends of the factory hold. Without it the tests of leaks are skipped, and say so. */
  readonly liveBytes?: () => number;
  /** Models to test with; default {@link conformanceModels}. Cases that need one alone take the first. */
  readonly models?: readonly ConformanceModel[];
}

/** Registers the conformance suite as vitest tests. Throws if `skip` names a test that does not exist. */
export function testBackend(factory: BackendFactory, options: TestBackendOptions = {}): void {
  const { name = 'a backend', skip = [], liveBytes, models = conformanceModels() } = options;
  const reasons = skipReasons(skip, conformanceCases.map(caseName));
  const suites = models.map((model) => conformanceSuite(factory, model, liveBytes));
  describe(`${name} conforms`, () => {
    for (const testCase of conformanceCases) {
      const lacks = testCase.needs === 'liveBytes' && !liveBytes ? 'no liveBytes was given' : undefined;
      const reason = reasons.get(caseName(testCase)) ?? lacks;
      for (const suite of testCase.scope === 'once' ? suites.slice(0, 1) : suites) {
        const title = testCase.scope === 'once' ? caseName(testCase) : `${caseName(testCase)} [${suite.model.name}]`;
        it.skipIf(reason !== undefined)(reason ? `${title} (skipped: ${reason})` : title, () =>
          runCase(testCase, suite),
        );
      }
    }
  });
}
