import type { FastMode, StudyBackend } from '../backends.js';

export const studySizes = ['quick', 'full'] as const;
export type StudySize = (typeof studySizes)[number];

/** What a run is made of, besides the machine: equal studies on one machine can be continued and compared. */
export interface Study {
  readonly size: StudySize;
  /** A folder in Hugging Face layout, a `.gguf` file, or `tales`, the embedded model. */
  readonly model: string;
  readonly backend: StudyBackend;
  /** `batch-shaped`: the study mode of the CPU backend, whose fast schedule reduces as GPU libraries do. */
  readonly fast: FastMode;
  /** Threads of the CPU backend. */
  readonly threads: number;
  /** Of everything drawn: texts, lengths, arrivals. */
  readonly seed: number;
  /** Rounds of what is interleaved, in place of the scenario's own. */
  readonly rounds?: number;
  /** Requests per second of online scenarios, in place of their own. */
  readonly qps?: readonly number[];
  /** Requests of a trace, in place of the scenario's own. */
  readonly requests?: number;
  /** A file in ShareGPT's JSON, whose conversations take the place of generated ones. */
  readonly dataset?: string;
}

/** The value for the size of a study. */
export function sized<T>({ size }: Study, values: Readonly<Record<StudySize, T>>): T {
  return values[size];
}
