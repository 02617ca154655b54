import { bytesToHex } from '@noble/hashes/utils.js';
import type { GenerateEvent, TokenLogprobText } from '../api.js';
import type { CompletionUsage, StetBlock } from './shapes.js';

type Accepted = Extract<GenerateEvent, { type: 'accepted' }>;
type Done = Extract<GenerateEvent, { type: 'done' }>;

/** A whole stream, collected. */
export interface CollectedAnswer {
  readonly text: string;
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprobText[];
  /** Of the prompt's tokens but the first, if asked for. */
  readonly promptLogprobs?: readonly TokenLogprobText[];
  readonly done: Done;
}

/** Reads a stream to its end. Throws what the stream throws. */
export async function collectAnswer(events: AsyncIterable<GenerateEvent>): Promise<CollectedAnswer> {
  const texts: string[] = [];
  const tokens: number[] = [];
  const logprobs: TokenLogprobText[] = [];
  let promptLogprobs: readonly TokenLogprobText[] | undefined;
  let done: Done | undefined;
  for await (const event of events) {
    if (event.type === 'commit') {
      texts.push(event.text);
      tokens.push(...event.tokens);
      logprobs.push(...(event.logprobs ?? []));
      promptLogprobs ??= event.promptLogprobs;
    } else if (event.type === 'done') done = event;
  }
  if (!done) throw new Error('assertion failed: a stream ends with done or throws');
  return { text: texts.join(''), tokens, logprobs, ...(promptLogprobs && { promptLogprobs }), done };
}

/** Of all choices, by their index: each prompt counts once, and so does what was cached of it before. */
export function usageOf(choices: readonly Done[], choiceCount: number): CompletionUsage {
  const firsts = choices.filter((_, index) => index % choiceCount === 0);
  const promptTokens = firsts.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
  const completionTokens = choices.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: firsts.reduce((sum, { stats }) => sum + stats.cachedTokens, 0) },
  };
}

/** Of the choices by their index; `accepted` is that of the first one. */
export function stetBlock(accepted: Accepted, choices: readonly Done[], warnings: readonly string[]): StetBlock {
  const sum = (key: 'windows' | 'rollbacks') => choices.reduce((total, { stats }) => total + stats[key], 0);
  const receipts = choices.flatMap(({ receipt }) => receipt ?? []);
  return {
    deterministic: accepted.params.deterministic,
    seed: accepted.seed,
    windows: sum('windows'),
    rollbacks: sum('rollbacks'),
    ...(choices.length > 1 ? receipts.length > 0 && { receipts } : receipts[0] && { receipt: receipts[0] }),
    ...(warnings.length > 0 && { warnings }),
  };
}

export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export function answerHead(prefix: 'chatcmpl' | 'cmpl', model: string, accepted: Accepted): AnswerHead {
  return {
    id: `${prefix}-${bytesToHex(crypto.getRandomValues(new Uint8Array(12)))}`,
    created: Math.floor(Date.now() / 1000),
    model,
    system_fingerprint: accepted.fingerprint,
  };
}

/** The usage field of a chunk that is not the usage chunk. */
export function usageField(includeUsage: boolean): { readonly usage?: null } {
  return includeUsage ? { usage: null } : {};
}

export type { Accepted, Done };
