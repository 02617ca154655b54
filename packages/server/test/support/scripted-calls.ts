import type { OpenAiCalls } from '../../src/openai/calls.js';
import { ScriptedEngine } from './scripted-engine.js';

/** What a scripted call does; the parameters are those of the request, as the client sent them. */
export type ScriptedCall = (params: object, signal: AbortSignal) => Promise<object | AsyncIterable<object>>;

/** A scripted engine with OpenAI's calls, both of which do the same. */
export function engineCalling(call: ScriptedCall): ScriptedEngine & OpenAiCalls {
  const create = (params: object, options?: { readonly signal?: AbortSignal }) =>
    call(params, options?.signal ?? new AbortController().signal);
  return Object.assign(new ScriptedEngine(), { chat: { completions: { create } }, completions: { create } });
}

/** A chunk of a completion with some text. */
export function chunkOf(text: string): object {
  return {
    ...{ id: 'cmpl-1', object: 'text_completion', created: 1, model: 'scripted', system_fingerprint: 'scripted-1' },
    choices: [{ index: 0, text, logprobs: null, finish_reason: null }],
  };
}

/** Resolves after so long, or rejects with the signal's reason. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, milliseconds);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}
