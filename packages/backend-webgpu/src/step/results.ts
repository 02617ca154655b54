import { type Batch, type BatchResult, OUTPUT_LOGITS, StetError } from '@stet/backend';
import { ARGMAX_BYTES } from '../kernels/argmax.js';

/** Where the results of a batch lie in what is read back, in bytes. */
export interface ResultPlace {
  /** (outputCount) answers of `argmax.wgsl`. */
  readonly answers: number;
  /** f32 (rows that want logits × vocabSize) */
  readonly logits: number;
  readonly logitsRows: number;
}

/** The arrays that one schedule's results stand in. They are kept; that of logits grows to the most that a step has asked for. */
export class Results {
  readonly #vocabSize: number;
  readonly #maxRows: number;
  #argmax = new Int32Array(0);
  #argmaxLogit = new Float32Array(0);
  #runnerUpLogit = new Float32Array(0);
  #logits = new Float32Array(0);

  constructor(vocabSize: number, maxRows: number) {
    this.#vocabSize = vocabSize;
    this.#maxRows = maxRows;
  }

  /** Makes room. Throws `STET_ERR_OUT_OF_MEMORY`. */
  reserve(logitsRows: number): void {
    const logitsCount = logitsRows * this.#vocabSize;
    try {
      // A result's array that its reader has transferred elsewhere has length 0, and is replaced here.
      if (this.#argmax.length === 0) this.#argmax = new Int32Array(this.#maxRows);
      if (this.#argmaxLogit.length === 0) this.#argmaxLogit = new Float32Array(this.#maxRows);
      if (this.#runnerUpLogit.length === 0) this.#runnerUpLogit = new Float32Array(this.#maxRows);
      if (this.#logits.length < logitsCount) {
        this.#logits = new Float32Array(Math.max(logitsCount, 2 * this.#logits.length));
      }
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      throw new StetError('STET_ERR_OUT_OF_MEMORY', `no memory for ${logitsCount} logits`, { cause });
    }
  }

  /** Copies the results of a batch out of what was read back. They are overwritten by the next step. */
  read(batch: Batch, bytes: ArrayBuffer, place: ResultPlace): BatchResult {
    const outputCount = batch.outputRows.length;
    const logitsCount = place.logitsRows * this.#vocabSize;
    const words = (outputCount * ARGMAX_BYTES) / 4;
    const tokens = new Int32Array(bytes, place.answers, words);
    const floats = new Float32Array(bytes, place.answers, words);
    for (let i = 0; i < outputCount; i++) {
      this.#argmax[i] = tokens[4 * i]!;
      this.#argmaxLogit[i] = floats[4 * i + 1]!;
      this.#runnerUpLogit[i] = floats[4 * i + 2]!;
    }
    this.#logits.set(new Float32Array(bytes, place.logits, logitsCount));
    return {
      argmax: this.#argmax.subarray(0, outputCount),
      argmaxLogit: this.#argmaxLogit.subarray(0, outputCount),
      runnerUpLogit: this.#runnerUpLogit.subarray(0, outputCount),
      logits: this.#logits.subarray(0, logitsCount),
    };
  }
}

export function logitsRowsOf({ outputKinds }: Batch): number {
  let count = 0;
  for (const kind of outputKinds) if (kind === OUTPUT_LOGITS) count++;
  return count;
}
