import { describe, it } from 'vitest';
import { formatsOf, type WeightFormat, weightFormats } from '../plan.js';
import type { BackendFactory } from '../port.js';
import { caseName, conformanceSuite, runCase } from './case.js';
import { conformanceCases } from './cases/index.js';
import { type ConformanceModel, conformanceModels } from './models.js';
import { formatReason, type Skip, skipReasons } from './skip.js';

export interface TestBackendOptions {
  /** Title of the suite; default `a backend`. */
  readonly name?: string;
  readonly skip?: readonly Skip[];
  /** Bytes that all backends of the factory hold. Without it the tests of leaks are skipped, and say so. */
  readonly liveBytes?: () => number;
  /** Weight formats of the backend; all by default. Models and cases of another are skipped and say so. */
  readonly formats?: readonly WeightFormat[];
  /** Models to test with; default {@link conformanceModels}. Cases that need one alone take the first. */
  readonly models?: readonly ConformanceModel[];
}

/** Registers the conformance suite as vitest tests. Throws if `skip` names a test that does not exist. */
export function testBackend(factory: BackendFactory, options: TestBackendOptions = {}): void {
  const { name = 'a backend', skip = [], liveBytes, formats = weightFormats, models = conformanceModels() } = options;
  const reasons = skipReasons(skip, conformanceCases.map(caseName));
  const suites = models.map((model) => conformanceSuite(factory, model, liveBytes));
  describe(`${name} conforms`, () => {
    for (const testCase of conformanceCases) {
      const lacks = testCase.needs === 'liveBytes' && !liveBytes ? 'no liveBytes was given' : undefined;
      for (const suite of testCase.scope === 'once' ? suites.slice(0, 1) : suites) {
        const needs = [...formatsOf(suite.model.plan), ...(testCase.formats ?? [])];
        const reason = reasons.get(caseName(testCase)) ?? lacks ?? formatReason(needs, formats);
        const title = testCase.scope === 'once' ? caseName(testCase) : `${caseName(testCase)} [${suite.model.name}]`;
        it.skipIf(reason !== undefined)(reason ? `${title} (skipped: ${reason})` : title, () =>
          runCase(testCase, suite),
        );
      }
    }
  });
}
