import type { GenerateEvent, GenerateRequest } from '../api.js';
import { type Accepted, answerHead, collectAnswer, stetBlock, usageField, usageOf } from './answer.js';
import type { RequestOptions } from './chat-completions.js';
import { ChunkStream, type CompletionHost, openRequest } from './chunk-stream.js';
import { TextLogprobWriter } from './logprobs.js';
import { promptOf, type TextParams, type TranslatedParams, translateParams } from './params.js';
import type { TextCompletion, TextCompletionChunk } from './shapes.js';

/** What `max_tokens` is by default, as in OpenAI's API. */
const DEFAULT_MAX_TOKENS = 16;

/** `POST /v1/completions`, as a function. */
export class TextCompletions {
  readonly #host: CompletionHost;

  constructor(host: CompletionHost) {
    this.#host = host;
  }

  /**
   * One completion, or with `stream: true` its chunks as they are committed. Rejects with a `StetError` when the
   * request is refused; a stream throws it where it fails. Temperature is 1 and `max_tokens` 16 by default, as in
   * OpenAI's API.
   */
  create(
    params: TextParams & { readonly stream: true },
    options?: RequestOptions,
  ): Promise<AsyncIterableIterator<TextCompletionChunk>>;
  create(params: TextParams & { readonly stream?: false | null }, options?: RequestOptions): Promise<TextCompletion>;
  create(
    params: TextParams,
    options?: RequestOptions,
  ): Promise<TextCompletion | AsyncIterableIterator<TextCompletionChunk>>;
  async create(
    params: TextParams,
    { signal }: RequestOptions = {},
  ): Promise<TextCompletion | AsyncIterableIterator<TextCompletionChunk>> {
    const translated = translateParams(params, this.#host.info.model, textFields);
    const { accepted, events } = await openRequest(this.#host, translated, DEFAULT_MAX_TOKENS, signal);
    return translated.stream ? this.#chunks(translated, accepted, events) : this.#whole(translated, accepted, events);
  }

  async #whole(
    { request, warnings }: TranslatedParams,
    accepted: Accepted,
    events: AsyncIterable<GenerateEvent>,
  ): Promise<TextCompletion> {
    const { text, logprobs, done } = await collectAnswer(events);
    return {
      ...answerHead('cmpl', this.#host.info.model, accepted),
      object: 'text_completion',
      choices: [
        {
          index: 0,
          text,
          logprobs: request.logprobs === undefined ? null : this.#writer().write(logprobs),
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
  ): AsyncIterableIterator<TextCompletionChunk> {
    const writer = this.#writer();
    const head = {
      ...answerHead('cmpl', this.#host.info.model, accepted),
      object: 'text_completion' as const,
      ...usageField(includeUsage),
    };
    return new ChunkStream<TextCompletionChunk>(events, [], (event) => {
      if (event.type === 'commit') {
        const logprobs = event.logprobs ? writer.write(event.logprobs) : null;
        if (event.text === '' && !logprobs) return [];
        return [{ ...head, choices: [{ index: 0, text: event.text, logprobs, finish_reason: null }] }];
      }
      if (event.type !== 'done') return [];
      const last: TextCompletionChunk = {
        ...head,
        choices: [{ index: 0, text: '', logprobs: null, finish_reason: event.finishReason }],
        stet: stetBlock(accepted, event, warnings),
      };
      return includeUsage ? [last, { ...head, choices: [], usage: usageOf(event) }] : [last];
    });
  }

  #writer(): TextLogprobWriter {
    return new TextLogprobWriter((token) => this.#host.tokenBytes(token));
  }
}

const TEXT_FIELDS = ['prompt', 'logprobs'];

function textFields(fields: Readonly<Record<string, unknown>>): {
  readonly names: readonly string[];
  readonly request: GenerateRequest;
} {
  return {
    names: TEXT_FIELDS,
    request: {
      ...promptOf(fields.prompt),
      ...(fields.logprobs !== undefined && { logprobs: fields.logprobs as number }),
    },
  };
}
