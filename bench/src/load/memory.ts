import { percentile, rounded } from '../stats.js';
import type { ServerChild } from './server-child.js';

/** Of the server's process, MiB. */
export interface MemoryFigures {
  /** Before the first request. */
  readonly before: number;
  readonly peak: number;
  /** After each round, when every socket was closed, nothing was kept and garbage was collected. */
  readonly drained: readonly number[];
  readonly drainedHeap: readonly number[];
  /** From the first round's end, which has filled what fills once, to the last one's. */
  readonly growth: number;
  readonly heapGrowth: number;
  readonly bound: number;
  readonly heapBound: number;
  readonly isFlat: boolean;
}

export interface LagFigures {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const SAMPLE_MS = 250;
/** What allocators keep makes RSS wander; what a server would leak with each request shows in the heap. */
const GROWTH_BOUND_MIB = 32;
const HEAP_GROWTH_BOUND_MIB = 4;

/** Watches the server's process during the rounds of a run. */
export class ServerWatch {
  readonly #lagsMs: number[] = [];
  #before = 0;
  #peak = 0;
  readonly #drained: number[] = [];
  readonly #drainedHeap: number[] = [];
  readonly #samples: Promise<void>[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly child: ServerChild) {}

  async start(): Promise<void> {
    this.#before = mebibytes((await this.child.sample(true)).rssBytes);
  }

  beginRound(): void {
    this.#timer = setInterval(() => this.#samples.push(this.#look()), SAMPLE_MS);
  }

  /** Rejects if the server does not become idle. */
  async endRound(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#samples.splice(0));
    await this.child.untilIdle();
    const { rssBytes, heapBytes } = await this.child.sample(true);
    this.#drained.push(mebibytes(rssBytes));
    this.#drainedHeap.push(mebibytes(heapBytes));
  }

  /** How late a timer was at most, in each quarter of a second of the rounds. */
  lag(): LagFigures {
    const at = (quantile: number) => rounded(percentile(this.#lagsMs, quantile), 2);
    return { p50: at(0.5), p99: at(0.99), max: at(1) };
  }

  memory(): MemoryFigures {
    const [growth, heapGrowth] = [growthOf(this.#drained), growthOf(this.#drainedHeap)];
    return {
      before: this.#before,
      peak: this.#peak,
      drained: this.#drained,
      drainedHeap: this.#drainedHeap,
      growth,
      heapGrowth,
      bound: GROWTH_BOUND_MIB,
      heapBound: HEAP_GROWTH_BOUND_MIB,
      isFlat: growth <= GROWTH_BOUND_MIB && heapGrowth <= HEAP_GROWTH_BOUND_MIB,
    };
  }

  async #look(): Promise<void> {
    const { rssBytes, lagMs } = await this.child.sample();
    this.#peak = Math.max(this.#peak, mebibytes(rssBytes));
    this.#lagsMs.push(lagMs);
  }
}

export function mebibytes(bytes: number): number {
  return rounded(bytes / 2 ** 20, 1);
}

function growthOf(values: readonly number[]): number {
  return rounded(values.at(-1)! - values[0]!, 1);
}
