import { readFileSync, statSync } from 'node:fs';
import { StetError } from '@stet/backend';
import { shuffled } from '../random.js';
import { MIN_TOKENS, type PromptedRequest } from './lengths.js';

/** The first two turns of a conversation. */
export interface Conversation {
  readonly prompt: string;
  readonly answer: string;
}

/** The longest file that can be read as one string; what is larger has to be cut first. */
export const MAX_DATASET_BYTES = 500 * 2 ** 20;

/** Reads a file in ShareGPT's JSON. Throws `STET_ERR_BAD_REQUEST` for one that is none, with what is wrong with it. */
export function readShareGptFile(file: string): Conversation[] {
  let bytes: number;
  let text: string;
  try {
    bytes = statSync(file).size;
    if (bytes > MAX_DATASET_BYTES) {
      throw refused(
        file,
        `has ${bytes} bytes, ${MAX_DATASET_BYTES} at most can be read: cut it, as with jq -c '.[:50000]'`,
      );
    }
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof StetError) throw error;
    throw refused(file, 'cannot be read', error);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw refused(file, 'is no JSON', error);
  }
  const conversations = conversationsOf(value);
  if (!conversations) throw refused(file, 'is not an array of conversations');
  if (conversations.length === 0)
    throw refused(file, 'has no conversation with two turns, {"conversations":[{"from":…,"value":…},…]}');
  return conversations;
}

/** Those that have a prompt and an answer, as text; undefined for what is no array. */
export function conversationsOf(value: unknown): Conversation[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.flatMap((one: unknown) => {
    const turns = turnsOf(one);
    const [prompt, answer] = [textOf(turns?.[0]), textOf(turns?.[1])];
    return prompt === undefined || answer === undefined ? [] : [{ prompt, answer }];
  });
}

function turnsOf(value: unknown): readonly unknown[] | undefined {
  if (typeof value !== 'object' || value === null || !('conversations' in value)) return undefined;
  return Array.isArray(value.conversations) ? value.conversations : undefined;
}

function textOf(turn: unknown): string | undefined {
  if (typeof turn !== 'object' || turn === null || !('value' in turn)) return undefined;
  return typeof turn.value === 'string' ? turn.value : undefined;
}

export interface SampleOptions {
  readonly count: number;
  readonly contextLength: number;
  readonly seed: number;
  encode(text: string): number[];
}

/**
 * Requests from conversations in a seeded order: the first turn, and as many tokens as the second has. As in SGLang's benchmark
 * what has less than 4 tokens is left out; what is longer than the context is cut to it, the prompt to half of it first. They
 * come again where there are too few. Throws `STET_ERR_BAD_REQUEST` where none is left.
 */
export function sampleConversations(
  conversations: readonly Conversation[],
  { count, contextLength, seed, encode }: SampleOptions,
): PromptedRequest[] {
  const requests: PromptedRequest[] = [];
  // Only what is needed is encoded: files have a hundred thousand conversations.
  for (const index of shuffled(conversations.length, seed)) {
    if (requests.length === count) break;
    const { prompt, answer } = conversations[index]!;
    const request = cutToContext(encode(prompt), encode(answer).length, contextLength);
    if (request) requests.push(request);
  }
  if (requests.length === 0)
    throw new StetError(
      'STET_ERR_BAD_REQUEST',
      `no conversation of the dataset has ${MIN_TOKENS} tokens on both sides in this model's tokens`,
    );
  return Array.from({ length: count }, (_, i) => requests[i % requests.length]!);
}

function cutToContext(
  prompt: readonly number[],
  answerTokens: number,
  contextLength: number,
): PromptedRequest | undefined {
  if (Math.min(prompt.length, answerTokens) < MIN_TOKENS) return undefined;
  const fits = prompt.length + answerTokens <= contextLength;
  const promptTokens = fits
    ? prompt
    : prompt.slice(0, Math.max(Math.floor(contextLength / 2), contextLength - answerTokens));
  return { promptTokens, outputTokens: Math.min(answerTokens, contextLength - promptTokens.length) };
}

function refused(file: string, why: string, cause?: unknown): StetError {
  const because = cause instanceof Error ? `: ${cause.message}` : '';
  return new StetError('STET_ERR_BAD_REQUEST', `the dataset ${file} ${why}${because}`, { cause });
}
