/** Figures of one answer as its reader sees them, in milliseconds. */
export interface MeterReading {
  readonly tokenCount: number;
  readonly firstTokenMs?: number;
  /** Final tokens a second, from the first that arrived to the last. */
  readonly tokensPerSecond?: number;
  /** Between arrivals of final tokens; those that arrive together count as one arrival. */
  readonly gapP50Ms?: number;
  readonly gapP99Ms?: number;
}

/** Times the commits of one answer. Clocks are read by the caller. */
export class Meter {
  readonly #startMs: number;
  readonly #gapsMs: number[] = [];
  #firstMs: number | undefined;
  #lastMs = 0;
  #firstCount = 0;
  #tokenCount = 0;

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  commit(tokenCount: number, nowMs: number): void {
    if (this.#firstMs === undefined) {
      this.#firstMs = nowMs;
      this.#firstCount = tokenCount;
    } else {
      this.#gapsMs.push(nowMs - this.#lastMs);
    }
    this.#lastMs = nowMs;
    this.#tokenCount += tokenCount;
  }

  read(): MeterReading {
    if (this.#firstMs === undefined) return { tokenCount: 0 };
    const firstTokenMs = this.#firstMs - this.#startMs;
    const elapsedMs = this.#lastMs - this.#firstMs;
    if (elapsedMs <= 0) return { tokenCount: this.#tokenCount, firstTokenMs };
    return {
      tokenCount: this.#tokenCount,
      firstTokenMs,
      tokensPerSecond: ((this.#tokenCount - this.#firstCount) * 1000) / elapsedMs,
      gapP50Ms: percentile(this.#gapsMs, 0.5),
      gapP99Ms: percentile(this.#gapsMs, 0.99),
    };
  }
}

/** The smallest value that at least this share of all does not exceed. `values` is not empty. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}
