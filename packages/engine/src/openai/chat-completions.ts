import type { GenerateOptions } from '../api.js';
import { badRequest, boolean } from '../request/checks.js';
import { answerHead, type Done, stetBlock, usageField, usageOf } from './answer.js';
import { ChoiceStream } from './choice-stream.js';
import { type CompletionHost, collectChoices, type OpenChoices, openChoices } from './choices.js';
import { ChunkStream } from './chunk-stream.js';
import { chatLogprobs } from './logprobs.js';
import { type ChatParams, messagesOf, type OwnFields, type TranslatedParams, translateParams } from './params.js';
import type { ChatCompletion, ChatCompletionChunk } from './shapes.js';

/** `POST /v1/chat/completions`, as a function. */
export class ChatCompletions {
  readonly #host: CompletionHost;

  constructor(host: CompletionHost) {
    this.#host = host;
  }

  /**
   * One completion, or with `stream: true` its chunks as they are committed, those of `n` choices as they come. Rejects
   * with a `StetError` when the request is refused; a stream throws it where it fails, and a choice that fails ends the
   * others. Temperature is 1 by default, as in OpenAI's API, and `max_tokens` what the context has left.
   */
  create(
    params: ChatParams & { readonly stream: true },
    options?: GenerateOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  create(params: ChatParams & { readonly stream?: false | null }, options?: GenerateOptions): Promise<ChatCompletion>;
  create(
    params: ChatParams,
    options?: GenerateOptions,
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>>;
  async create(
    params: ChatParams,
    options: GenerateOptions = {},
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    const translated = translateParams(params, this.#host, chatFields);
    const open = await openChoices(this.#host, translated, Number.POSITIVE_INFINITY, options);
    return translated.stream ? this.#chunks(translated, open) : this.#whole(translated, open);
  }

  async #whole(
    { request, choiceCount, warnings }: TranslatedParams,
    { accepted, streams }: OpenChoices,
  ): Promise<ChatCompletion> {
    const answers = await collectChoices(streams);
    const ends = answers.map(({ done }) => done);
    return {
      ...answerHead('chatcmpl', this.#host.info.model, accepted[0]),
      object: 'chat.completion',
      choices: answers.map(({ text, logprobs, done }, index) => ({
        index,
        message: { role: 'assistant', content: text, refusal: null },
        logprobs: request.logprobs === undefined ? null : this.#logprobs(logprobs),
        finish_reason: done.finishReason,
      })),
      usage: usageOf(ends, choiceCount),
      stet: stetBlock(accepted[0], ends, warnings),
    };
  }

  #chunks(
    { choiceCount, includeUsage, warnings }: TranslatedParams,
    { accepted, streams }: OpenChoices,
  ): AsyncIterableIterator<ChatCompletionChunk> {
    type Choice = ChatCompletionChunk['choices'][number];
    const head = {
      ...answerHead('chatcmpl', this.#host.info.model, accepted[0]),
      object: 'chat.completion.chunk' as const,
      ...usageField(includeUsage),
    };
    const chunk = (index: number, delta: Choice['delta'], logprobs: Choice['logprobs'] = null) => ({
      ...head,
      choices: [{ index, delta, logprobs, finish_reason: null }],
    });
    const roles = accepted.map((_, index): ChatCompletionChunk => chunk(index, { role: 'assistant', content: '' }));
    const ends: Done[] = [];
    let openCount = streams.length;
    return new ChunkStream(new ChoiceStream(streams), roles, ({ index, event }): ChatCompletionChunk[] => {
      if (event.type === 'commit') {
        const logprobs = event.logprobs ? this.#logprobs(event.logprobs) : null;
        return event.text === '' && !logprobs ? [] : [chunk(index, { content: event.text }, logprobs)];
      }
      if (event.type !== 'done') return [];
      ends[index] = event;
      const last: ChatCompletionChunk = {
        ...head,
        choices: [{ index, delta: {}, logprobs: null, finish_reason: event.finishReason }],
        stet: stetBlock(accepted[index]!, [event], warnings),
      };
      const isOver = --openCount === 0;
      return includeUsage && isOver ? [last, { ...head, choices: [], usage: usageOf(ends, choiceCount) }] : [last];
    });
  }

  #logprobs(logprobs: Parameters<typeof chatLogprobs>[0]) {
    return chatLogprobs(logprobs, (token) => this.#host.tokenBytes(token));
  }
}

const CHAT_FIELDS = ['messages', 'logprobs', 'top_logprobs', 'max_completion_tokens'];

function chatFields(fields: Readonly<Record<string, unknown>>): OwnFields {
  const wanted = fields.logprobs === undefined ? false : boolean(fields.logprobs, 'logprobs');
  if (!wanted && fields.top_logprobs !== undefined) badRequest('top_logprobs needs logprobs: true');
  return {
    names: CHAT_FIELDS,
    prompts: [{ messages: messagesOf(fields.messages) }],
    request: wanted ? { logprobs: (fields.top_logprobs ?? 0) as number } : {},
  };
}
