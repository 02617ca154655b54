import type { EngineStats } from '@stet/engine';
import type { ServerLimits, ServerStats } from '@stet/server';

/** How the server of a run is set up, over the embedded model on the CPU. */
export interface ServerSetup {
  readonly threads: number;
  readonly limits?: Partial<ServerLimits>;
  /** Blocks of K/V; by default what the engine chooses. */
  readonly kvBlocks?: number;
  /** Share of fast rows whose likeliest token is made another one, so that verification has something to find; 0 by default. */
  readonly mismatchRate?: number;
}

export interface ServerSample {
  readonly rssBytes: number;
  /** Of JavaScript, and what hangs on it outside of the heap. */
  readonly heapBytes: number;
  /** By how much a timer was late at most since the last sample, ms. */
  readonly lagMs: number;
  readonly server: ServerStats;
  readonly engine: EngineStats;
}

export type ServerCommand =
  | { readonly kind: 'start'; readonly setup: ServerSetup }
  /** `collect`: after a full garbage collection. */
  | { readonly kind: 'sample'; readonly collect: boolean };

export interface Listening {
  readonly kind: 'listening';
  readonly url: string;
  readonly model: string;
  readonly fingerprint: string;
  readonly device: string;
}

/** One for each command, in their order. */
export type ServerAnswer =
  | Listening
  | { readonly kind: 'sample'; readonly sample: ServerSample }
  | { readonly kind: 'failed'; readonly message: string };
