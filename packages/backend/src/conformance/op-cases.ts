import type { OpRunner } from '../op-runner.js';
import type { WeightFormat } from '../plan.js';
import { expectEqualBits } from './equal-bits.js';
import { opVectors } from './vectors.js';

/** One golden vector of an operation. */
export interface OpConformanceCase {
  readonly name: string;
  /** Weight formats that it needs. */
  readonly formats: readonly WeightFormat[];
  /** Rejects with a `ConformanceFailure` at the first bit that differs. */
  run(runner: OpRunner): Promise<void>;
}

export function opConformanceCases(): OpConformanceCase[] {
  return opVectors().map((vector) => ({
    name: vector.name,
    formats: vector.formats,
    async run(runner) {
      const { output } = await runner.run(vector.case);
      expectEqualBits(output, vector.outputs.output, vector.name);
    },
  }));
}
