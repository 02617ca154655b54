import type { Backend, BackendLoad } from '@stet/backend';
import type { EngineLimits, KvOptions, StetEngine } from '@stet/engine';
import type { Json } from './scenario.js';
import type { Study } from './study.js';
import type { StudyModel } from './study-model.js';

/** An engine of the study's model and backend. Equal specs share one. */
export interface EngineSpec {
  /** `dvr`, or an object for a window of another size. */
  readonly policy:
    | 'auto'
    | 'direct'
    | 'dvr'
    | { readonly dvr: { readonly windowTokens: number; readonly maxHoldMs?: number } };
  /** `off` by default: prompts come again in every round, and nothing of them may be left. */
  readonly prefixCache?: 'on' | 'off';
  readonly limits?: Partial<EngineLimits>;
  /** What a workload's sequences need at once, where the engine's default may be too small or too many engines are open. */
  readonly kv?: KvOptions;
  /** Share of the fast rows whose likeliest token is exchanged for another, 0 .. 1. */
  readonly mismatchRate?: number;
}

/** What is kept open for the units of a scenario. */
export interface Closable {
  close(): Promise<void> | void;
}

export type BackendSize = Pick<BackendLoad, 'blockSize' | 'blockCount' | 'maxRows'>;

/** What the units of a study measure with. */
export interface StudyContext {
  readonly study: Study;
  /** The model's texts as tokens, and its sizes. */
  readonly model: StudyModel;
  /** Fires when the run is interrupted: what waits for long ends early then. What a unit returns after it is not kept. */
  readonly signal: AbortSignal;
  /** Opened by the first call and kept until its scenario has ended. */
  engine(spec: EngineSpec): Promise<StetEngine>;
  /** The study's backend by itself, with the model on it; opened and kept likewise. */
  backend(size: BackendSize): Promise<Backend>;
  /**
   * What `open` resolves to: opened by the first call with the name and kept until its scenario has ended. What could not
   * be opened is not tried again.
   */
  keep<T extends Closable>(name: string, open: () => Promise<T>): Promise<T>;
  /** What an earlier unit of the scenario measured, in this run or in the one that it continues. */
  measured(key: string): Json;
  /** A line above the progress bar. */
  log(line: string): void;
}
