import type { GenerateRequest } from '../api.js';
import { answerHead, type Done, stetBlock, usageField, usageOf } from './answer.js';
import type { RequestOptions } from './chat-completions.js';
import { ChoiceStream } from './choice-stream.js';
import { type CompletionHost, collectChoices, type OpenChoices, openChoices } from './choices.js';
import { ChunkStream } from './chunk-stream.js';
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
   * One completion, or with `stream: true` its chunks as they are committed, those of `n` choices as they come. Rejects
   * with a `StetError` when the request is refused; a stream throws it where it fails, and a choice that fails ends the
   * others. Temperature is 1 and `max_tokens` 16 by default, as in OpenAI's API.
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
    const translated = translateParams(params, this.#host, textFields);
    const open = await openChoices(this.#host, translated, DEFAULT_MAX_TOKENS, signal);
    return translated.stream ? this.#chunks(translated, open) : this.#whole(translated, open);
  }

  async #whole({ request, warnings }: TranslatedParams, { accepted, streams }: OpenChoices): Promise<TextCompletion> {
    const answers = await collectChoices(streams);
    const ends = answers.map(({ done }) => done);
    return {
      ...answerHead('cmpl', this.#host.info.model, accepted[0]),
      object: 'text_completion',
      choices: answers.map(({ text, logprobs, done }, index) => ({
        index,
        text,
        logprobs: request.logprobs === undefined ? null : this.#writer().write(logprobs),
        finish_reason: done.finishReason,
      })),
      usage: usageOf(ends),
      stet: stetBlock(accepted[0], ends, warnings),
    };
  }

  #chunks(
    { includeUsage, warnings }: TranslatedParams,
    { accepted, streams }: OpenChoices,
  ): AsyncIterableIterator<TextCompletionChunk> {
    const writers = streams.map(() => this.#writer());
    const head = {
      ...answerHead('cmpl', this.#host.info.model, accepted[0]),
      object: 'text_completion' as const,
      ...usageField(includeUsage),
    };
    const ends: Done[] = [];
    let openCount = streams.length;
    return new ChunkStream(new ChoiceStream(streams), [], ({ index, event }): TextCompletionChunk[] => {
      if (event.type === 'commit') {
        const logprobs = event.logprobs ? writers[index]!.write(event.logprobs) : null;
        if (event.text === '' && !logprobs) return [];
        return [{ ...head, choices: [{ index, text: event.text, logprobs, finish_reason: null }] }];
      }
      if (event.type !== 'done') return [];
      ends[index] = event;
      const last: TextCompletionChunk = {
        ...head,
        choices: [{ index, text: '', logprobs: null, finish_reason: event.finishReason }],
        stet: stetBlock(accepted[index]!, [event], warnings),
      };
      const isOver = --openCount === 0;
      return includeUsage && isOver ? [last, { ...head, choices: [], usage: usageOf(ends) }] : [last];
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
