import { StetError } from '../errors.js';
import { bitsOf } from '../numerics/index.js';
import { NUMERICS_ID } from '../port.js';

/** What a self-test found. It passed if it has no failures. */
export interface SelfTestReport {
  readonly numerics: typeof NUMERICS_ID;
  /** Names of the vectors that ran. */
  readonly vectors: readonly string[];
  /** Values that were compared. */
  readonly valueCount: number;
  /** The first difference of each vector that failed, in the order of the vectors. */
  readonly failures: readonly SelfTestFailure[];
}

export type SelfTestFailure =
  /** One value has other bits than the vector. */
  | {
      readonly kind: 'value';
      readonly vector: string;
      readonly index: number;
      readonly expected: number;
      readonly actual: number;
    }
  /** The output has another length. */
  | { readonly kind: 'length'; readonly vector: string; readonly expected: number; readonly actual: number }
  /** The device refused or failed. */
  | { readonly kind: 'error'; readonly vector: string; readonly cause: unknown };

/** Throws `STET_ERR_CANONICAL_REFUSED`, with vector, index and both values, unless the report has no failure and something ran. */
export function assertSelfTest(report: SelfTestReport): void {
  const [first] = report.failures;
  if (first) {
    const others = report.failures.length > 1 ? ` (and ${report.failures.length - 1} more vectors)` : '';
    const options = first.kind === 'error' ? { cause: first.cause } : {};
    throw new StetError('STET_ERR_CANONICAL_REFUSED', `${describeFailure(first)}${others}`, options);
  }
  if (report.valueCount === 0) throw new StetError('STET_ERR_CANONICAL_REFUSED', 'the self-test compared nothing');
}

/** One line: vector, index, both values as numbers and bits. */
export function describeFailure(failure: SelfTestFailure): string {
  switch (failure.kind) {
    case 'value': {
      const { vector, index, expected, actual } = failure;
      return `${vector}: value ${index} is ${hex(actual)} (${actual}), expected ${hex(expected)} (${expected})`;
    }
    case 'length':
      return `${failure.vector}: ${failure.actual} values, expected ${failure.expected}`;
    case 'error':
      return `${failure.vector}: ${failure.cause instanceof Error ? failure.cause.message : String(failure.cause)}`;
  }
}

/** The first difference of two outputs, bit for bit, if there is one. `offset` is added to the index that is reported. */
export function compareBits(
  vector: string,
  expected: Float32Array,
  actual: Float32Array,
  offset = 0,
): SelfTestFailure | undefined {
  if (actual.length !== expected.length) {
    return { kind: 'length', vector, expected: expected.length, actual: actual.length };
  }
  for (let index = 0; index < expected.length; index++) {
    if (bitsOf(expected[index]!) !== bitsOf(actual[index]!)) {
      return { kind: 'value', vector, index: offset + index, expected: expected[index]!, actual: actual[index]! };
    }
  }
  return undefined;
}

/** Collects what a self-test finds. */
export class ReportBuilder {
  readonly #vectors: string[] = [];
  readonly #failures: SelfTestFailure[] = [];
  #valueCount = 0;

  add(vector: string, valueCount: number, failure: SelfTestFailure | undefined): void {
    this.#vectors.push(vector);
    this.#valueCount += valueCount;
    if (failure) this.#failures.push(failure);
  }

  report(): SelfTestReport {
    return {
      numerics: NUMERICS_ID,
      vectors: this.#vectors,
      valueCount: this.#valueCount,
      failures: this.#failures,
    };
  }
}

function hex(x: number): string {
  return `0x${bitsOf(x).toString(16).padStart(8, '0')}`;
}
