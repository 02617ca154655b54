import type { StetErrorCode } from '@stet/backend';
import * as z from 'zod';
import {
  type CancelFrame,
  type CreditFrame,
  cancelFrameSchema,
  chatMessageSchema,
  creditFrameSchema,
  type GenerateFrame,
  generateFrameSchema,
  type PingFrame,
  pingFrameSchema,
  type ResumeFrame,
  resumeFrameSchema,
  streamIdSchema,
} from './client-frames.js';
import { protocolLimits } from './constants.js';

/** A client frame, or why it was refused: the error to answer with, about the frame's id where it has a usable one. */
export type ParsedFrame =
  | { readonly kind: 'generate'; readonly frame: GenerateFrame; readonly warnings: readonly string[] }
  | { readonly kind: 'resume'; readonly frame: ResumeFrame }
  | { readonly kind: 'credit'; readonly frame: CreditFrame }
  | { readonly kind: 'cancel'; readonly frame: CancelFrame }
  | { readonly kind: 'ping'; readonly frame: PingFrame }
  | RefusedFrame;

export interface RefusedFrame {
  readonly kind: 'refused';
  /** `stream`: the frame asked for a stream; `control`: it was any other. */
  readonly asked: 'stream' | 'control';
  readonly id?: string;
  readonly code: StetErrorCode;
  readonly message: string;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Parses the text of one client frame. Never throws, whatever the text. */
export function parseClientFrame(text: string): ParsedFrame {
  const value = parseJson(text);
  if (value === undefined) return refuse('control', undefined, 'STET_ERR_BAD_FRAME', 'the frame is not JSON');
  if (!isObject(value))
    return refuse('control', undefined, 'STET_ERR_BAD_FRAME', 'the frame is JSON but not an object');
  switch (value.type) {
    case 'generate':
      return parseGenerate(value);
    case 'resume':
      return parseStrict(value, 'stream', resumeFrameSchema, (frame) => ({ kind: 'resume', frame }));
    case 'credit':
      return parseStrict(value, 'control', creditFrameSchema, (frame) => ({ kind: 'credit', frame }));
    case 'cancel':
      return parseStrict(value, 'control', cancelFrameSchema, (frame) => ({ kind: 'cancel', frame }));
    case 'ping':
      return parseStrict(value, 'control', pingFrameSchema, (frame) => ({ kind: 'ping', frame }));
    default:
      return refuse('control', idOf(value), 'STET_ERR_UNKNOWN_TYPE', unknownType(value.type));
  }
}

function parseGenerate(value: JsonObject): ParsedFrame {
  const badRequest = (message: string) => refuse('stream', idOf(value), 'STET_ERR_BAD_REQUEST', message);
  const oversized = findOversized(value);
  if (oversized !== undefined) return badRequest(oversized);
  const parsed = generateFrameSchema.safeParse(value);
  if (!parsed.success) return badRequest(describe(parsed.error.issues[0]!));
  const frame = parsed.data;
  const conflict = findConflict(frame);
  if (conflict !== undefined) return badRequest(conflict);
  const unknown = unknownFields(value);
  const deterministic = frame.deterministic ?? frame.is_deterministic ?? false;
  if (deterministic && unknown.length > 0)
    return badRequest(`${describeUnknown(unknown).join(', ')}: a deterministic request may not hold what is ignored`);
  const { is_deterministic: _, ...rest } = frame;
  return { kind: 'generate', frame: { ...rest, deterministic }, warnings: describeUnknown(unknown) };
}

function parseStrict<T>(
  value: JsonObject,
  asked: RefusedFrame['asked'],
  schema: z.ZodType<T>,
  accept: (frame: T) => ParsedFrame,
): ParsedFrame {
  const parsed = schema.safeParse(value);
  return parsed.success
    ? accept(parsed.data)
    : refuse(asked, idOf(value), 'STET_ERR_BAD_REQUEST', describe(parsed.error.issues[0]!));
}

/** Counted before the schema looks at the elements: it would make an issue of each bad one. */
function findOversized(value: JsonObject): string | undefined {
  const { maxMessages, maxStopStrings, maxLogitBiases } = protocolLimits;
  if (Array.isArray(value.messages) && value.messages.length > maxMessages)
    return `messages: at most ${maxMessages} are allowed, not ${value.messages.length}`;
  if (Array.isArray(value.stop) && value.stop.length > maxStopStrings)
    return `stop: at most ${maxStopStrings} strings are allowed, not ${value.stop.length}`;
  if (isObject(value.logitBias) && Object.keys(value.logitBias).length > maxLogitBiases)
    return `logitBias: at most ${maxLogitBiases} tokens are allowed, not ${Object.keys(value.logitBias).length}`;
  return undefined;
}

function findConflict(frame: GenerateFrame): string | undefined {
  const sources = [frame.prompt, frame.promptTokens, frame.messages].filter((source) => source !== undefined);
  if (sources.length !== 1) return `prompt, promptTokens, messages: exactly one is needed, not ${sources.length}`;
  const { deterministic, is_deterministic: alias } = frame;
  if (deterministic !== undefined && alias !== undefined && deterministic !== alias)
    return 'is_deterministic: contradicts deterministic';
  return findRegenerationConflict(frame);
}

/** What must be there for the first `after` tokens to be the same again. */
function findRegenerationConflict(frame: GenerateFrame): string | undefined {
  const { after, hash, seed, maxTokens } = frame;
  if (after === undefined) return hash === undefined ? undefined : 'hash: says nothing without after';
  if (hash === undefined) return 'after: needs hash, that of the tokens before';
  if (!(frame.deterministic ?? frame.is_deterministic ?? false)) return 'after: needs a deterministic request';
  if (seed === undefined) return 'after: needs the seed of the earlier run';
  if (maxTokens !== undefined && maxTokens < after) return `maxTokens: is less than the ${after} tokens of after`;
  return undefined;
}

function unknownFields(value: JsonObject): string[] {
  const names = Object.keys(value).filter((name) => !Object.hasOwn(generateFrameSchema.shape, name));
  if (!Array.isArray(value.messages)) return names;
  for (const [index, message] of value.messages.entries()) {
    for (const name of Object.keys(message)) {
      if (!Object.hasOwn(chatMessageSchema.shape, name)) names.push(`messages[${index}].${name}`);
    }
  }
  return names;
}

function describeUnknown(names: readonly string[]): string[] {
  const { maxNamedFields } = protocolLimits;
  const described = names.slice(0, maxNamedFields).map((name) => `unknown field ${quote(name)}`);
  if (names.length > maxNamedFields) described.push(`${names.length - maxNamedFields} more unknown fields`);
  return described;
}

function unknownType(type: unknown): string {
  if (type === undefined) return 'the frame has no type';
  if (typeof type !== 'string') return 'the type of the frame is not a string';
  return `unknown frame type ${quote(type)}`;
}

/** Names the field and what was expected of it; never repeats a value, which may be a prompt. */
function describe(issue: z.core.$ZodIssue): string {
  const expectation = clip(issue.message.replace(/^Invalid input: /, ''), protocolLimits.maxExpectationCharacters);
  return issue.path.length === 0 ? expectation : `${z.core.toDotPath(issue.path)}: ${expectation}`;
}

function quote(name: string): string {
  return JSON.stringify(clip(name, protocolLimits.maxQuotedCharacters));
}

function clip(text: string, maxCharacters: number): string {
  return text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text;
}

function idOf(value: JsonObject): string | undefined {
  const id = streamIdSchema.safeParse(value.id);
  return id.success ? id.data : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuse(
  asked: RefusedFrame['asked'],
  id: string | undefined,
  code: StetErrorCode,
  message: string,
): RefusedFrame {
  return { kind: 'refused', asked, code, message, ...(id === undefined ? {} : { id }) };
}
