import type { EngineInfo, GenerateEvent, GenerateRequest } from '@stet/engine';

/** What the page asks for. */
export type AnswerRequest = Pick<
  GenerateRequest,
  | 'prompt'
  | 'messages'
  | 'maxTokens'
  | 'temperature'
  | 'topP'
  | 'seed'
  | 'stop'
  | 'deterministic'
  | 'logprobs'
  | 'provisional'
  | 'ignoreEos'
>;

/** What the page says about whoever answers; a server does not tell all of it. */
export type SourceInfo = Pick<
  EngineInfo,
  'model' | 'backend' | 'fingerprint' | 'guarantee' | 'contextLength' | 'chatTemplate'
> &
  Partial<Pick<EngineInfo, 'device' | 'policy'>>;

/** Whoever answers requests: an engine in a worker of this page, or a server. Many requests may run at once. */
export interface AnswerSource {
  readonly info: SourceInfo;
  /** As `Engine.generate`: leaving the loop or aborting cancels, errors are thrown by the iterator and are `StetError`s. */
  generate(request: AnswerRequest, options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<GenerateEvent>;
  /** Ends what runs and frees everything. May be called twice. */
  close(): Promise<void>;
}
