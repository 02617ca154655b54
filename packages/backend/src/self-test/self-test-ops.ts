import { opVectors, type VectorSelection } from '../conformance/vectors.js';
import type { OpRunner } from '../op-runner.js';
import { compareBits, ReportBuilder, type SelfTestFailure, type SelfTestReport } from './report.js';

/**
 * Runs the golden vectors of single operations and compares bit for bit. The default is the short list that every
 * start checks: each operation and format once or twice; `subset: 'full'` runs them all. Never rejects: a runner that
 * throws is a failure of that vector. Does not close the runner.
 */
export async function selfTestOps(runner: OpRunner, selection: VectorSelection = {}): Promise<SelfTestReport> {
  const builder = new ReportBuilder();
  for (const vector of opVectors({ subset: 'startup', ...selection })) {
    let failure: SelfTestFailure | undefined;
    try {
      const { output } = await runner.run(vector.case);
      failure = compareBits(vector.name, vector.outputs.output, output);
    } catch (cause) {
      failure = { kind: 'error', vector: vector.name, cause };
    }
    builder.add(vector.name, vector.outputs.output.length, failure);
  }
  return builder.report();
}
