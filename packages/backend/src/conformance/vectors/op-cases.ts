import type { OpCase } from '../../op-runner.js';
import type { WeightFormat } from '../../plan.js';
import { attentionCases } from './attention-cases.js';
import { elementCases } from './element-cases.js';
import { matrixCases } from './matrix-cases.js';
import { normCases } from './norm-cases.js';

/** The input of one golden vector. Its arrays are made from a seed each time. */
export interface OpCaseSpec {
  /** Unique, e.g. `linear q8: odd sizes`. */
  readonly name: string;
  readonly kind: OpCase['kind'];
  /** Weight formats that it needs; empty where it has no matrix. */
  readonly formats: readonly WeightFormat[];
  /** `startup`: part of the short self-test of every start; `full`: of the conformance suite alone. */
  readonly subset: 'startup' | 'full';
  readonly build: () => OpCase;
}

/** Every case, in a fixed order. */
export function opCases(): OpCaseSpec[] {
  return [...normCases(), ...elementCases(), ...matrixCases(), ...attentionCases()];
}
