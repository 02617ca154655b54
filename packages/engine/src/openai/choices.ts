import { assert, isStetError, StetError } from '@stet/backend';
import type { EngineInfo, GenerateEvent, GenerateOptions, GenerateRequest } from '../api.js';
import type { PromptPiece } from '../request/prompt-pieces.js';
import { type Accepted, type CollectedAnswer, collectAnswer } from './answer.js';
import type { TranslatedParams } from './params.js';

/** What this layer needs of an engine. */
export interface CompletionHost {
  readonly info: Pick<EngineInfo, 'model' | 'deterministic'>;
  /** Largest `n`. */
  readonly maxChoices: number;
  readonly maxPrompts: number;
  /** Starts all choices of a request or none: then there is one stream, which throws why. */
  generateChoices(
    request: GenerateRequest,
    choiceCount: number,
    defaultMaxTokens: number,
    options: GenerateOptions,
  ): readonly AsyncIterableIterator<GenerateEvent>[];
  /** Bytes that a token spells. */
  tokenBytes(token: number): Uint8Array;
  /** Of a prompt or of prompt tokens, which an engine has accepted. */
  promptPieces(request: GenerateRequest): readonly PromptPiece[];
}

/** A request that was accepted: its choices by their index, those of its first prompt first. */
export interface OpenChoices {
  readonly accepted: readonly [Accepted, ...Accepted[]];
  readonly streams: readonly AsyncIterableIterator<GenerateEvent>[];
}

/** Sends a request for each prompt and waits until all are accepted, so that a refusal rejects before any answer has begun. */
export async function openChoices(
  host: CompletionHost,
  params: TranslatedParams,
  defaultMaxTokens: number,
  options: GenerateOptions,
): Promise<OpenChoices> {
  const { request, prompts, choiceCount, usedNames } = params;
  const streams = prompts.flatMap((prompt) =>
    host.generateChoices({ ...request, ...prompt }, choiceCount, defaultMaxTokens, options),
  );
  try {
    const [first, ...others] = await Promise.all(streams.map(readAccepted));
    assert(first, 'a request has a choice');
    return { accepted: [first, ...others], streams };
  } catch (error) {
    await leaveAll(streams);
    throw inCallersWords(error, usedNames);
  }
}

/** Reads all choices to their end, at once. A failure of one is thrown, and the others are cancelled. */
export async function collectChoices(streams: OpenChoices['streams']): Promise<CollectedAnswer[]> {
  try {
    return await Promise.all(streams.map(collectAnswer));
  } catch (error) {
    await leaveAll(streams);
    throw error;
  }
}

async function readAccepted(stream: AsyncIterator<GenerateEvent>): Promise<Accepted> {
  const first = await stream.next();
  assert(!first.done && first.value.type === 'accepted', 'the first event of a stream is accepted');
  return first.value;
}

async function leaveAll(streams: OpenChoices['streams']): Promise<void> {
  await Promise.all(streams.map((stream) => stream.return?.()));
}

/** Messages begin with the engine's name of a field; the caller knows it by another. */
function inCallersWords(error: unknown, usedNames: ReadonlyMap<string, string>): unknown {
  if (!isStetError(error) || error.code !== 'STET_ERR_BAD_REQUEST') return error;
  const field = /^\w+/.exec(error.message)?.[0] ?? '';
  const name = usedNames.get(field);
  if (!name || name === field) return error;
  return new StetError(error.code, name + error.message.slice(field.length), { cause: error });
}
