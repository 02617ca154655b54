import { afterAll, beforeAll, describe, it } from 'vitest';
import type { OpRunner } from '../op-runner.js';
import { type WeightFormat, weightFormats } from '../plan.js';
import { opConformanceCases } from './op-cases.js';
import { formatReason, type Skip, skipReasons } from './skip.js';

export interface TestOpsOptions {
  /** Title of the suite; default `operations`. */
  readonly name?: string;
  readonly skip?: readonly Skip[];
  /** Weight formats of the kernels; all by default. Vectors of another are skipped and say so. */
  readonly formats?: readonly WeightFormat[];
}

/** Registers every golden vector of an operation as a vitest test. */
export function testOps(createRunner: () => OpRunner | Promise<OpRunner>, options: TestOpsOptions = {}): void {
  const { name = 'operations', skip = [], formats = weightFormats } = options;
  const cases = opConformanceCases();
  const reasons = skipReasons(
    skip,
    cases.map((testCase) => testCase.name),
  );
  describe(`${name} give the recorded bits`, () => {
    let runner: OpRunner | undefined;
    beforeAll(async () => {
      runner = await createRunner();
    });
    afterAll(() => runner?.close());
    for (const testCase of cases) {
      const reason = reasons.get(testCase.name) ?? formatReason(testCase.formats, formats);
      const title = reason ? `${testCase.name} (skipped: ${reason})` : testCase.name;
      it.skipIf(reason !== undefined)(title, () => testCase.run(runner!));
    }
  });
}
