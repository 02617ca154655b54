import type { ChatParams, GenerateOptions, TextParams } from '@stet/engine';

/** What the routes call, as `createEngine` gives it. An answer is one object, or a stream of chunks where the request asks for one. */
export interface OpenAiCalls {
  readonly chat: { readonly completions: Calls<ChatParams> };
  readonly completions: Calls<TextParams>;
}

/** Rejects with a `StetError` where the request is refused; a stream throws it where it fails. */
export interface Calls<Params> {
  create(params: Params, options?: GenerateOptions): Promise<object | AsyncIterable<object>>;
}

/** An engine that was made by `createEngine` has the calls; one that only generates is served without these routes. */
export function hasOpenAiCalls<Engine extends object>(
  engine: Engine & Partial<OpenAiCalls>,
): engine is Engine & OpenAiCalls {
  return engine.chat !== undefined && engine.completions !== undefined;
}

export function isStream(answer: object | AsyncIterable<object>): answer is AsyncIterable<object> {
  return Symbol.asyncIterator in answer;
}
