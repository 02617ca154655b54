import type { GenerateEvent, GenerateRequest } from '../api.js';
import { badRequest, boolean } from '../request/checks.js';
import { type Accepted, answerHead, collectAnswer, stetBlock, usageField, usageOf } from './answer.js';
import { ChunkStream, type CompletionHost, openRequest } from './chunk-stream.js';
import { chatLogprobs } from './logprobs.js';
import { type ChatParams, messagesOf, type TranslatedParams, translateParams } from './params.js';
import type { ChatCompletion, ChatCompletionChunk } from './shapes.js';

export interface RequestOptions {
  readonly signal?: AbortSignal;
}

/** `POST /v1/chat/completions`, as a function. */
export class ChatCompletions {
  readonly #host: CompletionHost;

  constructor(host: CompletionHost) {
    this.#host = host;
  }

  /**
   * One completion, or with `stream: true` its chunks as they are committed. Rejects with a `StetError` when the
   * request is refused; a stream throws it where it fails. Temperature is 1 by default, as in OpenAI's API, and
   * `max_tokens` what the context has left.
   */
  create(
    params: ChatParams & { readonly stream: true },
    options?: RequestOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  create(params: ChatParams & { readonly stream?: false | null }, options?: RequestOptions): Promise<ChatCompletion>;
  create(
    params: ChatParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>>;
  async create(
    params: ChatParams,
    { signal }: RequestOptions = {},
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    const translated = translateParams(params, this.#host.info.model, chatFields);
    const { accepted, events } = await openRequest(this.#host, translated, Number.POSITIVE_INFINITY, signal);
    return translated.stream ? this.#chunks(translated, accepted, events) : this.#whole(translated, accepted, events);
  }

  async #whole(
    { request, warnings }: TranslatedParams,
    accepted: Accepted,
    events: AsyncIterable<GenerateEvent>,
  ): Promise<ChatCompletion> {
    const { text, logprobs, done } = await collectAnswer(events);
    return {
      ...answerHead('chatcmpl', this.#host.info.model, accepted),
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: text, refusal: null },
          logprobs: request.logprobs === undefined ? null : this.#logprobs(logprobs),
          finish_reason: done.finishReason,
        },
      ],
      usage: usageOf(done),
      stet: stetBlock(accepted, done, warnings),
    };
  }

  #chunks(
    { includeUsage, warnings }: TranslatedParams,
    accepted: Accepted,
    events: AsyncIterableIterator<GenerateEvent>,
  ): AsyncIterableIterator<ChatCompletionChunk> {
    type Choice = ChatCompletionChunk['choices'][number];
    const head = {
      ...answerHead('chatcmpl', this.#host.info.model, accepted),
      object: 'chat.completion.chunk' as const,
      ...usageField(includeUsage),
    };
    const chunk = (delta: Choice['delta'], logprobs: Choice['logprobs'] = null): ChatCompletionChunk => ({
      ...head,
      choices: [{ index: 0, delta, logprobs, finish_reason: null }],
    });
    return new ChunkStream(events, [chunk({ role: 'assistant', content: '' })], (event) => {
      if (event.type === 'commit') {
        const logprobs = event.logprobs ? this.#logprobs(event.logprobs) : null;
        return event.text === '' && !logprobs ? [] : [chunk({ content: event.text }, logprobs)];
      }
      if (event.type !== 'done') return [];
      const last: ChatCompletionChunk = {
        ...head,
        choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: event.finishReason }],
        stet: stetBlock(accepted, event, warnings),
      };
      return includeUsage ? [last, { ...head, choices: [], usage: usageOf(event) }] : [last];
    });
  }

  #logprobs(logprobs: Parameters<typeof chatLogprobs>[0]) {
    return chatLogprobs(logprobs, (token) => this.#host.tokenBytes(token));
  }
}

const CHAT_FIELDS = ['messages', 'logprobs', 'top_logprobs', 'max_completion_tokens'];

function chatFields(fields: Readonly<Record<string, unknown>>): {
  readonly names: readonly string[];
  readonly request: GenerateRequest;
} {
  const wanted = fields.logprobs === undefined ? false : boolean(fields.logprobs, 'logprobs');
  if (!wanted && fields.top_logprobs !== undefined) badRequest('top_logprobs needs logprobs: true');
  return {
    names: CHAT_FIELDS,
    request: {
      messages: messagesOf(fields.messages),
      ...(wanted && { logprobs: (fields.top_logprobs ?? 0) as number }),
    },
  };
}
