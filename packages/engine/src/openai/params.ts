import type { ChatMessage, GenerateRequest } from '../api.js';
import { badRequest, boolean, integer, plainObject, show } from '../request/checks.js';
import type { CompletionHost } from './choices.js';

/** The fields that both endpoints share. Null means absent, as in OpenAI's API. */
export interface CommonParams {
  readonly model?: string;
  readonly max_tokens?: number | null;
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  /** Answers to the prompt, 1 by default: each sampled by a seed of its own, see `deriveSeed`. */
  readonly n?: number | null;
  readonly stop?: string | readonly string[] | null;
  readonly frequency_penalty?: number | null;
  readonly presence_penalty?: number | null;
  readonly logit_bias?: Readonly<Record<string, number>> | null;
  readonly seed?: number | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean; readonly include_obfuscation?: boolean } | null;
  readonly user?: string;
  /** Same tokens and log-probabilities, bit for bit, whatever shares the batch. */
  readonly deterministic?: boolean;
  /** Another name of `deterministic`. */
  readonly is_deterministic?: boolean;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
  readonly ignore_eos?: boolean;
}

export interface ChatMessageParam {
  readonly role: string;
  readonly content: string | readonly { readonly type: 'text'; readonly text: string }[];
}

export interface ChatParams extends CommonParams {
  readonly messages: readonly ChatMessageParam[];
  readonly max_completion_tokens?: number | null;
  readonly logprobs?: boolean | null;
  readonly top_logprobs?: number | null;
}

export interface TextParams extends CommonParams {
  readonly prompt: string | readonly number[] | readonly string[] | readonly (readonly number[])[];
  /** The chosen token's log-probability and those of the n likeliest. */
  readonly logprobs?: number | null;
  /**
   * Begin the answer with the prompt, and its `logprobs` with those of the prompt's tokens. A request that asks for both
   * is deterministic unless it says otherwise and where the backend can, and its `max_tokens` may be 0.
   */
  readonly echo?: boolean | null;
}

/** A prompt in the engine's own words. */
export type PromptFields = Pick<GenerateRequest, 'prompt' | 'promptTokens' | 'messages'>;
export type Prompts = readonly [PromptFields, ...PromptFields[]];

/** A request in the engine's own words, and what concerns the answer's shape alone. */
export interface TranslatedParams {
  /** All but the prompt. */
  readonly request: GenerateRequest;
  readonly prompts: Prompts;
  /** Answers to each prompt. */
  readonly choiceCount: number;
  /** Answers begin with the prompt. */
  readonly echo: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Fields that are not known and were ignored. */
  readonly warnings: readonly string[];
  /** The caller's name of each engine field. */
  readonly usedNames: ReadonlyMap<string, string>;
}

/** The fields of one endpoint: their names, and what they mean. */
export interface OwnFields {
  readonly names: readonly string[];
  readonly request: GenerateRequest;
  readonly prompts: Prompts;
  readonly echo?: boolean;
}

/** Known to OpenAI's clients and without any influence on the output. */
const NO_INFLUENCE = new Set(['user', 'store', 'metadata', 'service_tier', 'safety_identifier', 'prompt_cache_key']);

/** Known to OpenAI's API and not offered: only a value that changes nothing is accepted. */
const NEUTRAL: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ['echo', (value) => value === false],
  ['suffix', (value) => value === ''],
  ['tools', (value) => Array.isArray(value) && value.length === 0],
  ['tool_choice', (value) => value === 'none' || value === 'auto'],
  ['parallel_tool_calls', (value) => typeof value === 'boolean'],
  ['response_format', (value) => plainObject(value, 'response_format').type === 'text'],
  ['modalities', (value) => Array.isArray(value) && value.length === 1 && value[0] === 'text'],
]);

const RENAMED: ReadonlyMap<string, keyof GenerateRequest> = new Map([
  ['max_tokens', 'maxTokens'],
  ['max_completion_tokens', 'maxTokens'],
  ['temperature', 'temperature'],
  ['top_p', 'topP'],
  ['top_k', 'topK'],
  ['min_p', 'minP'],
  ['stop', 'stop'],
  ['frequency_penalty', 'frequencyPenalty'],
  ['presence_penalty', 'presencePenalty'],
  ['repetition_penalty', 'repetitionPenalty'],
  ['logit_bias', 'logitBias'],
  ['seed', 'seed'],
  ['ignore_eos', 'ignoreEos'],
  ['deterministic', 'deterministic'],
  ['is_deterministic', 'deterministic'],
]);

/**
 * Translates the fields that both endpoints share; `own` translates those of one endpoint and says which they are.
 * Values are checked when the engine parses the request. Throws `STET_ERR_BAD_REQUEST` that names the field.
 */
export function translateParams(
  params: unknown,
  { info, maxChoices, maxPrompts }: Pick<CompletionHost, 'info' | 'maxChoices' | 'maxPrompts'>,
  own: (fields: Readonly<Record<string, unknown>>) => OwnFields,
): TranslatedParams {
  const fields = withoutNulls(plainObject(params, 'the request'));
  const { names, request, prompts, echo = false } = own(fields);
  if (prompts.length > maxPrompts)
    badRequest(`prompt has ${prompts.length} prompts, at most ${maxPrompts} are allowed`);
  const translated: Record<string, unknown> = {};
  const usedNames = new Map<string, string>();
  const unknown: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    const target = RENAMED.get(name);
    if (target) {
      if (Object.hasOwn(translated, target) && translated[target] !== value)
        badRequest(`${name} contradicts ${usedNames.get(target)}`);
      translated[target] = value;
      usedNames.set(target, name);
    } else if (names.includes(name) || SHAPE_FIELDS.has(name) || NO_INFLUENCE.has(name)) continue;
    else if (NEUTRAL.has(name)) checkNeutral(name, value);
    else unknown.push(name.slice(0, 64));
  }
  if (fields.model !== undefined && fields.model !== info.model)
    badRequest(`model ${show(fields.model)} is not served here; this engine has "${info.model}"`);
  if (translated.deterministic === true && unknown.length > 0)
    badRequest(`unknown parameter "${unknown[0]}" in a deterministic request`);
  return {
    request: { temperature: 1, ...(translated as GenerateRequest), ...request },
    prompts,
    usedNames,
    echo,
    choiceCount: choiceCountOf(fields, maxChoices),
    stream: fields.stream === undefined ? false : boolean(fields.stream, 'stream'),
    includeUsage: includeUsage(fields),
    warnings: unknown.map((name) => `unknown parameter "${name}" was ignored`),
  };
}

const SHAPE_FIELDS = new Set(['model', 'n', 'best_of', 'stream', 'stream_options']);

/** `best_of` is known to OpenAI's API and not offered: only a value that leaves no choice out is accepted. */
function choiceCountOf(fields: Readonly<Record<string, unknown>>, maxChoices: number): number {
  const { n = 1, best_of: bestOf = n } = fields;
  const count = integer(1, maxChoices)(n, 'n');
  if (bestOf !== count) badRequest(`best_of is not supported with the value ${show(bestOf)}: it must be that of n`);
  return count;
}

/** The engine's prompt fields from the legacy endpoint's four forms: a text, token ids, or an array of either. */
export function promptsOf(value: unknown): Prompts {
  if (typeof value === 'string') return [{ prompt: value }];
  const entries: readonly unknown[] = Array.isArray(value) ? value : [undefined];
  if (entries.every((entry) => typeof entry === 'number')) return [{ promptTokens: entries }];
  const [first, ...others] = entries.map(promptOf);
  return [first!, ...others];
}

function promptOf(value: unknown): PromptFields {
  if (typeof value === 'string') return { prompt: value };
  if (Array.isArray(value) && value.every((entry) => typeof entry === 'number')) return { promptTokens: value };
  return badRequest('prompt must be a string, an array of token ids, or an array of either');
}

/** Messages whose content is a string or a list of text parts. */
export function messagesOf(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) return badRequest(`messages must be an array, not ${show(value)}`);
  return value.map((entry: unknown, index) => {
    const { name, ...message } = withoutNulls(plainObject(entry, `messages[${index}]`));
    if (name !== undefined && typeof name !== 'string') badRequest(`messages[${index}].name must be a string`);
    return { ...message, content: contentOf(message.content, `messages[${index}].content`) } as ChatMessage;
  });
}

function contentOf(value: unknown, name: string): unknown {
  if (!Array.isArray(value)) return value;
  return value
    .map((part: unknown, index) => {
      const { type, text } = plainObject(part, `${name}[${index}]`);
      if (type !== 'text' || typeof text !== 'string') badRequest(`${name}[${index}] must be a part of type "text"`);
      return text;
    })
    .join('');
}

function checkNeutral(name: string, value: unknown): void {
  if (!NEUTRAL.get(name)?.(value)) badRequest(`${name} is not supported with the value ${show(value)}`);
}

function includeUsage(fields: Readonly<Record<string, unknown>>): boolean {
  if (fields.stream_options === undefined) return false;
  const { include_usage: usage } = plainObject(fields.stream_options, 'stream_options');
  return usage === undefined ? false : boolean(usage, 'stream_options.include_usage');
}

function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}
