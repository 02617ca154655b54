import { assertNever } from '@stet/backend';
import type { AnswerSource } from './answer-source.js';
import type { SourceChoice } from './choice.js';
import type { OpenProgress } from './messages.js';
import { type LinkState, openServer } from './server-source.js';
import { openWorkerEngine } from './worker-engine.js';

export interface OpenSourceOptions {
  /** Of a server that wants one. */
  readonly key?: string;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: OpenProgress) => void;
  readonly onState: (state: LinkState) => void;
}

/** Whoever was chosen and nobody else. Rejects with a `StetError`. */
export function openSource(
  choice: SourceChoice,
  { key, signal, onProgress, onState }: OpenSourceOptions,
): Promise<AnswerSource> {
  switch (choice.kind) {
    case 'browser':
      return openWorkerEngine(choice, { signal, onProgress });
    case 'server':
      return openServer({ address: choice.address, signal, onState, ...(key !== undefined && { key }) });
    default:
      return assertNever(choice);
  }
}
