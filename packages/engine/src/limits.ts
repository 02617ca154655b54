import { StetError } from '@stet/backend';

/** Every bound of one request and of the engine, with its default. */
export interface EngineLimits {
  /** Sequences that may wait for blocks or for a place in the batch. */
  readonly maxWaiting: number;
  /** Sequences that may run at once. */
  readonly maxRunning: number;
  /** Rows of one batch of a step, and so the largest prefill chunk. */
  readonly maxRows: number;
  /** Of the canonical batch alone, where it is less than `maxRows`: windows that share a pass, and chunks of deterministic prompts. */
  readonly maxCanonicalRows: number;
  /** Unread output tokens at which a sequence pauses until its reader comes back. */
  readonly maxUnreadTokens: number;
  /** Characters of a prompt, or of all messages together, per position of the context. */
  readonly promptCharactersPerPosition: number;
  readonly maxMessages: number;
  readonly maxStopStrings: number;
  readonly maxStopCharacters: number;
  readonly maxLogitBiases: number;
  readonly maxTopLogprobs: number;
  /** `n` of an OpenAI-shaped call: answers to one prompt. */
  readonly maxChoices: number;
  /** Prompts of one call of `completions`. */
  readonly maxPrompts: number;
  /** Times in a row that a lost device is answered by a new backend before the engine gives up; a commit begins anew. */
  readonly maxRecreations: number;
  /** Milliseconds before the second re-creation in a row, twice as many before each further one, a minute at most; the first begins at once. */
  readonly recreationWaitMs: number;
  /** What `maxTokens` is when a request does not say, if the context has room for it. */
  readonly defaultMaxTokens: number;
}

export const defaultLimits: EngineLimits = {
  maxWaiting: 1024,
  maxRunning: 256,
  maxRows: 256,
  // More than any batch has: no bound of its own.
  maxCanonicalRows: 2 ** 20,
  maxUnreadTokens: 256,
  promptCharactersPerPosition: 64,
  maxMessages: 1024,
  maxStopStrings: 8,
  maxStopCharacters: 256,
  maxLogitBiases: 1024,
  maxTopLogprobs: 20,
  maxChoices: 16,
  maxPrompts: 128,
  maxRecreations: 3,
  recreationWaitMs: 500,
  defaultMaxTokens: 256,
};

/** Fills in the defaults. Throws `STET_ERR_BAD_REQUEST` for an unknown limit or one that is not a positive integer. */
export function resolveLimits(limits: Partial<EngineLimits> = {}): EngineLimits {
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(defaultLimits, name))
      throw new StetError('STET_ERR_BAD_REQUEST', `unknown engine limit "${name}"`);
    if (!Number.isSafeInteger(value) || value < 1)
      throw new StetError('STET_ERR_BAD_REQUEST', `engine limit ${name} must be a positive integer, not ${value}`);
  }
  return { ...defaultLimits, ...limits };
}
