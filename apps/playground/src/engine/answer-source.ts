import type { EngineInfo, GenerateEvent, GenerateRequest } from '@stet/engine';

/** What the page says about whoever answers. */
export type SourceInfo = Pick<EngineInfo, 'model' | 'backend' | 'device' | 'fingerprint' | 'guarantee' | 'policy'>;

/** Whoever answers requests: an engine in a worker of this page, or anything else with an engine's `generate`. */
export interface AnswerSource {
  readonly info: SourceInfo;
  /** As `Engine.generate`: leaving the loop or aborting cancels, errors are thrown by the iterator and are `StetError`s. */
  generate(request: GenerateRequest, options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<GenerateEvent>;
  /** Ends what runs and frees everything. May be called twice. */
  close(): Promise<void>;
}
