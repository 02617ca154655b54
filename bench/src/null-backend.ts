import { type Backend, type Batch, type BatchResult, OUTPUT_LOGITS, type Step, type StepResult } from '@stet/backend';
import { seededNormal } from './random.js';

/** The greedy token after position p: a fixed sequence, so that every candidate is verified. */
export function nullToken(position: number, vocabSize: number): number {
  return (Math.imul(position, 7919) + 13) % vocabSize;
}

/**
 * A device that takes no time. Logits are prepared once and are the same in every row, so that the fast and the
 * canonical draw of an output index agree; arg-maxima follow {@link nullToken}.
 */
export class NullBackend implements Pick<Backend, 'forward'> {
  readonly #vocabSize: number;
  readonly #logits: Float32Array;
  readonly #argmax: Record<keyof Step, Int32Array>;
  readonly #argmaxLogit: Float32Array;
  readonly #runnerUpLogit: Float32Array;

  /** `logitsRows`: most rows of a batch that want logits. */
  constructor(vocabSize: number, maxRows: number, logitsRows: number) {
    this.#vocabSize = vocabSize;
    this.#logits = repeatedLogits(vocabSize, logitsRows);
    this.#argmax = { fast: new Int32Array(maxRows), canonical: new Int32Array(maxRows) };
    this.#argmaxLogit = new Float32Array(maxRows).fill(10);
    this.#runnerUpLogit = new Float32Array(maxRows);
  }

  async forward({ fast, canonical }: Step): Promise<StepResult> {
    return {
      ...(fast && { fast: this.#result(fast, this.#argmax.fast) }),
      ...(canonical && { canonical: this.#result(canonical, this.#argmax.canonical) }),
    };
  }

  #result(batch: Batch, argmax: Int32Array): BatchResult {
    const { outputRows, outputKinds, positions } = batch;
    let logitsRows = 0;
    for (let i = 0; i < outputRows.length; i++) {
      argmax[i] = nullToken(positions[outputRows[i]!]!, this.#vocabSize);
      if (outputKinds[i] === OUTPUT_LOGITS) logitsRows++;
    }
    return {
      argmax: argmax.subarray(0, outputRows.length),
      argmaxLogit: this.#argmaxLogit.subarray(0, outputRows.length),
      runnerUpLogit: this.#runnerUpLogit.subarray(0, outputRows.length),
      logits: this.#logits.subarray(0, logitsRows * this.#vocabSize),
    };
  }
}

/** (rows × vocabSize): one row of {@link likelyLogits}, again and again. */
function repeatedLogits(vocabSize: number, rows: number): Float32Array {
  const all = new Float32Array(rows * vocabSize);
  const one = likelyLogits(vocabSize);
  for (let row = 0; row < rows; row++) all.set(one, row * vocabSize);
  return all;
}

/** (vocabSize): normally distributed with a deviation of 3, about as peaked as a language model is. */
export function likelyLogits(vocabSize: number): Float32Array {
  const normal = seededNormal(1);
  return Float32Array.from({ length: vocabSize }, () => 3 * normal());
}
