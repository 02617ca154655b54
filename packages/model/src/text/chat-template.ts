import { Environment, Template } from '@huggingface/jinja';
import { StetError } from '@stet/backend';
import { causeMessage } from '../files/quote.js';
import { BoundedInterpreter } from './bounded-interpreter.js';
import { strftime } from './strftime.js';

export interface ChatTemplateMessage {
  readonly role: string;
  readonly content: unknown;
  readonly [field: string]: unknown;
}

export interface ChatTemplateInput {
  readonly messages: readonly ChatTemplateMessage[];
  /** End with the beginning of the assistant's turn; true by default. */
  readonly addGenerationPrompt?: boolean;
  readonly tools?: readonly unknown[];
  /** What `strftime_now` of a template sees; a template that asks for it fails where this is absent. */
  readonly now?: Date;
  /** Further variables of the template, e.g. `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Turns messages into the text of a prompt. */
export interface ChatTemplate {
  /** The text of each variant by its name. */
  readonly sources: ReadonlyMap<string, string>;
  /**
   * Pure, but for the clock that is passed in. The text has its own special tokens: encode it without adding any.
   * Throws `STET_ERR_BAD_CHAT_TEMPLATE` when the template is wrong, refuses the messages or runs past its limits.
   */
  render(input: ChatTemplateInput): string;
}

/** Longest template, in characters. */
export const MAX_TEMPLATE_LENGTH = 2 ** 20;
/** White space in a row: the library's patterns look ahead over all of it from each of its characters. */
const MAX_WHITE_SPACE = 512;
/** Longest list that `range` makes. */
const MAX_RANGE = 10_000;
/** Longest rendered prompt, in characters. */
const MAX_OUTPUT = 16 * 2 ** 20;

/**
 * A chat template over its named variants: `default`, and `tool_use` where tools are passed and the model has one.
 * Each is parsed when it is first used, so that a bad one does not stop plain prompts.
 */
export function createChatTemplate(
  templates: ReadonlyMap<string, string>,
  specialTokens: Readonly<Record<'bos_token' | 'eos_token' | 'pad_token' | 'unk_token', string | undefined>>,
): ChatTemplate {
  const parsed = new Map<string, Template['parsed']>();
  return {
    sources: templates,
    render: (input) => {
      const name = input.tools && templates.has('tool_use') ? 'tool_use' : 'default';
      const source = templates.get(name);
      if (source === undefined) bad(`has no template of the name ${name}; it has ${[...templates.keys()].join(', ')}`);
      let program = parsed.get(name);
      if (!program) {
        program = parse(source);
        parsed.set(name, program);
      }
      return run(program, input, specialTokens);
    },
  };
}

function parse(source: string): Template['parsed'] {
  if (source.length > MAX_TEMPLATE_LENGTH)
    bad(`has ${source.length} characters, at most ${MAX_TEMPLATE_LENGTH} are allowed`);
  if (longestWhiteSpace(source) > MAX_WHITE_SPACE)
    bad(`has more than ${MAX_WHITE_SPACE} characters of white space in a row`);
  try {
    return new Template(source).parsed;
  } catch (cause) {
    return bad(`cannot be parsed: ${causeMessage(cause)}`, cause);
  }
}

function longestWhiteSpace(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/\s+/g)) longest = Math.max(longest, run.length);
  return longest;
}

function run(
  program: Template['parsed'],
  input: ChatTemplateInput,
  specialTokens: Readonly<Record<string, string | undefined>>,
): string {
  try {
    const environment = new Environment();
    const globals = templateGlobals(input.now);
    for (const [name, value] of Object.entries(globals)) environment.set(name, value);
    for (const [name, value] of Object.entries(templateVariables(input, specialTokens))) {
      if (Object.hasOwn(globals, name)) throw new Error(`the variable ${name} is not yours to set`);
      environment.set(name, value);
    }
    const text: unknown = new BoundedInterpreter(environment).run(program).value;
    if (typeof text !== 'string') throw new Error('it gave no text');
    if (text.length > MAX_OUTPUT)
      throw new Error(`it gave ${text.length} characters, at most ${MAX_OUTPUT} are allowed`);
    return text;
  } catch (cause) {
    return bad(`failed: ${causeMessage(cause)}`, cause);
  }
}

function templateVariables(
  { messages, addGenerationPrompt = true, tools, variables }: ChatTemplateInput,
  specialTokens: Readonly<Record<string, string | undefined>>,
): Record<string, unknown> {
  const known = Object.entries(specialTokens).filter(([, token]) => token !== undefined);
  return {
    tools: tools ?? null,
    documents: null,
    ...Object.fromEntries(known),
    ...variables,
    messages,
    add_generation_prompt: addGenerationPrompt,
  };
}

function templateGlobals(now: Date | undefined): Record<string, unknown> {
  return {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    raise_exception: (message: unknown) => {
      throw new Error(String(message));
    },
    range: boundedRange,
    strftime_now: (format: unknown) => {
      if (!now) throw new Error('it asks for the time, and none was passed');
      return strftime(now, String(format));
    },
  };
}

function boundedRange(first: number, second?: number, step = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (![start, stop, step].every(Number.isInteger) || step === 0)
    throw new Error('range() takes integers, and no step of 0');
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > MAX_RANGE) throw new Error(`range() of ${length}, at most ${MAX_RANGE} are allowed`);
  return Array.from({ length }, (_, i) => start + i * step);
}

function bad(message: string, cause?: unknown): never {
  throw new StetError('STET_ERR_BAD_CHAT_TEMPLATE', `the chat template ${message}`, { cause });
}
