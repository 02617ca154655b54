import type { Receipt } from '../api.js';

/** What Stet adds to every OpenAI-shaped answer. */
export interface StetBlock {
  readonly deterministic: boolean;
  /** Of choice 0, and so of the request; `deriveSeed` gives those of the others. In a chunk: of the choice that it ends. */
  readonly seed: number;
  /** Of choice 0 of each prompt, where there are several: the same if the request has a seed. */
  readonly seeds?: readonly number[];
  /** Of all choices together; in a chunk of the one that it ends, as the receipt. */
  readonly windows: number;
  readonly rollbacks: number;
  readonly receipt?: Receipt;
  /** In place of `receipt` where there are several choices: of each, in their order. */
  readonly receipts?: readonly Receipt[];
  /** Fields that were ignored; deterministic requests refuse them instead. */
  readonly warnings?: readonly string[];
}

export interface CompletionUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

export type FinishReason = 'stop' | 'length';

interface ResponseHead<Kind extends string> {
  readonly id: string;
  readonly object: Kind;
  /** Unix time in seconds. */
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export interface ChatTokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
  readonly top_logprobs: readonly Omit<ChatTokenLogprob, 'top_logprobs'>[];
}

export interface ChatLogprobs {
  readonly content: readonly ChatTokenLogprob[];
  readonly refusal: null;
}

export interface ChatCompletion extends ResponseHead<'chat.completion'> {
  readonly choices: readonly {
    readonly index: number;
    readonly message: { readonly role: 'assistant'; readonly content: string; readonly refusal: null };
    readonly logprobs: ChatLogprobs | null;
    readonly finish_reason: FinishReason;
  }[];
  readonly usage: CompletionUsage;
  readonly stet: StetBlock;
}

export interface ChatCompletionChunk extends ResponseHead<'chat.completion.chunk'> {
  readonly choices: readonly {
    readonly index: number;
    readonly delta: { readonly role?: 'assistant'; readonly content?: string };
    readonly logprobs: ChatLogprobs | null;
    readonly finish_reason: FinishReason | null;
  }[];
  /** Only with `stream_options.include_usage`: null but in the last chunk. */
  readonly usage?: CompletionUsage | null;
  /** In the chunk that has the finish reason. */
  readonly stet?: StetBlock;
}

export interface TextLogprobs {
  readonly tokens: readonly string[];
  /** Null of the first token of an echoed prompt: nothing stands before it. */
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
  /** Offset of each token in the text that the tokens spell, in UTF-16 units. */
  readonly text_offset: readonly number[];
}

/** A whole answer or a chunk of a stream: the legacy endpoint has one shape for both. */
export interface TextCompletion extends ResponseHead<'text_completion'> {
  readonly choices: readonly {
    readonly index: number;
    readonly text: string;
    readonly logprobs: TextLogprobs | null;
    readonly finish_reason: FinishReason;
  }[];
  readonly usage: CompletionUsage;
  readonly stet: StetBlock;
}

export interface TextCompletionChunk extends ResponseHead<'text_completion'> {
  readonly choices: readonly {
    readonly index: number;
    readonly text: string;
    readonly logprobs: TextLogprobs | null;
    readonly finish_reason: FinishReason | null;
  }[];
  readonly usage?: CompletionUsage | null;
  readonly stet?: StetBlock;
}
