import { StetError } from '@stet/backend';
import type { ChatMessage, GenerateRequest } from '../api.js';
import type { EngineLimits } from '../limits.js';
import { array, badRequest, boolean, type Check, integer, number, plainObject, show, string } from './checks.js';

export interface RequestBounds {
  readonly limits: EngineLimits;
  readonly vocabSize: number;
  readonly contextLength: number;
}

/** A request whose every field is known and of the right type and range. */
export type ParsedRequest = Omit<GenerateRequest, 'stop' | 'prompt' | 'promptTokens' | 'messages'> & {
  readonly input: PromptInput;
  readonly stop: readonly string[];
};

export type PromptInput =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'tokens'; readonly tokens: readonly number[] }
  | { readonly kind: 'messages'; readonly messages: readonly ChatMessage[] };

/**
 * Checks a request from outside. An absent field is one that is missing or undefined; null is an error, and so is a
 * field that is not known: a knob that is silently ignored would be a reproducibility bug.
 * Throws `STET_ERR_BAD_REQUEST` that names the field.
 */
export function parseRequest(value: unknown, bounds: RequestBounds): ParsedRequest {
  const request = plainObject(value, 'the request');
  const checks = fieldChecks(bounds);
  const parsed: Record<string, unknown> = {};
  for (const name of Object.keys(request)) {
    if (!Object.hasOwn(checks, name)) badRequest(`unknown parameter "${name.slice(0, 64)}"`);
    if (request[name] === undefined) continue;
    parsed[name] = checks[name as keyof GenerateRequest](request[name], name);
  }
  const { prompt, promptTokens, messages, stop, ...rest } = parsed as GenerateRequest;
  return { ...rest, input: oneInput(prompt, promptTokens, messages), stop: (stop ?? []) as readonly string[] };
}

type Checks = { readonly [Name in keyof Required<GenerateRequest>]: Check<unknown> };

function fieldChecks({ limits, vocabSize, contextLength }: RequestBounds): Checks {
  const promptCharacters = contextLength * limits.promptCharactersPerPosition;
  return {
    prompt: promptText(promptCharacters),
    promptTokens: tokenArray(contextLength, vocabSize),
    messages: messageArray(limits.maxMessages, promptCharacters),
    maxTokens: integer(1, Number.MAX_SAFE_INTEGER),
    deterministic: boolean,
    seed: integer(0, Number.MAX_SAFE_INTEGER),
    temperature: number(0, 100),
    topK: integer(0, 2 ** 31 - 1),
    topP: number(0, 1, 'above'),
    minP: number(0, 1),
    frequencyPenalty: number(-2, 2),
    presencePenalty: number(-2, 2),
    repetitionPenalty: number(0.1, 10),
    logitBias: logitBias(limits.maxLogitBiases, vocabSize),
    stop: stopStrings(limits),
    logprobs: integer(0, limits.maxTopLogprobs),
    promptLogprobs: integer(0, limits.maxTopLogprobs),
    provisional: boolean,
    priority: integer(-100, 100),
    ignoreEos: boolean,
  };
}

function oneInput(
  prompt: GenerateRequest['prompt'],
  promptTokens: GenerateRequest['promptTokens'],
  messages: GenerateRequest['messages'],
): PromptInput {
  const count = [prompt, promptTokens, messages].filter((input) => input !== undefined).length;
  if (count !== 1) badRequest(`give exactly one of prompt, promptTokens and messages, not ${count}`);
  if (prompt !== undefined) return { kind: 'text', text: prompt };
  if (promptTokens !== undefined) return { kind: 'tokens', tokens: promptTokens };
  return { kind: 'messages', messages: messages ?? [] };
}

/** Ids are checked without a call per entry: prompts are long. Too many of them is the context's matter, not the type's. */
function tokenArray(contextLength: number, vocabSize: number): Check<readonly number[]> {
  return (value, name) => {
    if (!Array.isArray(value) || value.length === 0) badRequest(`${name} must be a non-empty array of token ids`);
    const ids = value as unknown[];
    const checked = Math.min(ids.length, contextLength + 1);
    for (let i = 0; i < checked; i++) {
      const id = ids[i];
      if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= vocabSize)
        badRequest(`${name}[${i}] must be a token id in 0..${vocabSize - 1}, not ${show(id)}`);
    }
    return ids as number[];
  };
}

/** Text of more characters than any tokenizer could fit into the context is refused before it is tokenized. */
function promptText(maxCharacters: number): Check<string> {
  const text = string(0, Number.POSITIVE_INFINITY);
  return (value, name) => {
    const parsed = text(value, name);
    return parsed.length > maxCharacters ? tooLong(`${name} has`, parsed.length, maxCharacters) : parsed;
  };
}

function tooLong(what: string, count: number, maxCharacters: number): never {
  throw new StetError(
    'STET_ERR_CONTEXT_LENGTH',
    `${what} ${count} characters, more than ${maxCharacters}, which the context can never hold`,
  );
}

function messageArray(maxMessages: number, maxCharacters: number): Check<readonly ChatMessage[]> {
  const role = string(1, 64);
  const content = promptText(maxCharacters);
  const message: Check<ChatMessage> = (value, name) => {
    const object = plainObject(value, name);
    for (const key of Object.keys(object)) {
      if (key !== 'role' && key !== 'content') badRequest(`unknown parameter "${name}.${key.slice(0, 64)}"`);
    }
    return { role: role(object.role, `${name}.role`), content: content(object.content, `${name}.content`) };
  };
  const messages = array(1, maxMessages, message);
  return (value, name) => {
    const parsed = messages(value, name);
    const total = parsed.reduce((sum, { content: text }) => sum + text.length, 0);
    return total > maxCharacters ? tooLong(`${name} have`, total, maxCharacters) : parsed;
  };
}

function stopStrings(limits: EngineLimits): Check<readonly string[]> {
  const one = string(1, limits.maxStopCharacters);
  const many = array(0, limits.maxStopStrings, one);
  return (value, name) => (typeof value === 'string' ? [one(value, name)] : many(value, name));
}

function logitBias(maxEntries: number, vocabSize: number): Check<Readonly<Record<string, number>>> {
  const bias = number(-100, 100);
  return (value, name) => {
    const object = plainObject(value, name);
    const entries = Object.entries(object);
    if (entries.length > maxEntries) badRequest(`${name} has ${entries.length} entries, allowed are ${maxEntries}`);
    for (const [key, entry] of entries) {
      if (!/^(0|[1-9]\d{0,9})$/.test(key) || Number(key) >= vocabSize)
        badRequest(`${name} has the key ${show(key)}, which is not a token id in 0..${vocabSize - 1}`);
      bias(entry, `${name}.${key}`);
    }
    return Object.fromEntries(entries) as Record<string, number>;
  };
}
