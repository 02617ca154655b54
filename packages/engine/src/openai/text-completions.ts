import type { GenerateOptions, TokenLogprobText } from '../api.js';
import { boolean } from '../request/checks.js';
import { answerHead, type Done, stetBlock, usageField, usageOf } from './answer.js';
import { ChoiceStream } from './choice-stream.js';
import { type CompletionHost, collectChoices, type OpenChoices, openChoices } from './choices.js';
import { ChunkStream } from './chunk-stream.js';
import { type Echo, echoesOf, echoRequest, joinLogprobs, shownEnd } from './echo.js';
import { TextLogprobWriter } from './logprobs.js';
import { type OwnFields, promptsOf, type TextParams, type TranslatedParams, translateParams } from './params.js';
import type { TextCompletion, TextCompletionChunk, TextLogprobs } from './shapes.js';

/** What `max_tokens` is by default, as in OpenAI's API. */
const DEFAULT_MAX_TOKENS = 16;

/** `POST /v1/completions`, as a function. */
export class TextCompletions {
  readonly #host: CompletionHost;

  constructor(host: CompletionHost) {
    this.#host = host;
  }

  /**
   * One completion, with `n` choices for each prompt, those of the first prompt first; or with `stream: true` its chunks as
   * they are committed, those of all choices as they come. An answer is that to its prompt alone. Rejects
   * with a `StetError` when the request is refused; a stream throws it where it fails, and a choice that fails ends the
   * others. Temperature is 1 and `max_tokens` 16 by default, as in OpenAI's API.
   */
  create(
    params: TextParams & { readonly stream: true },
    options?: GenerateOptions,
  ): Promise<AsyncIterableIterator<TextCompletionChunk>>;
  create(params: TextParams & { readonly stream?: false | null }, options?: GenerateOptions): Promise<TextCompletion>;
  create(
    params: TextParams,
    options?: GenerateOptions,
  ): Promise<TextCompletion | AsyncIterableIterator<TextCompletionChunk>>;
  async create(
    params: TextParams,
    options: GenerateOptions = {},
  ): Promise<TextCompletion | AsyncIterableIterator<TextCompletionChunk>> {
    const translated = translateParams(params, this.#host, textFields);
    const sent = { ...translated, request: echoRequest(translated, this.#host.info.deterministic) };
    const open = await openChoices(this.#host, sent, DEFAULT_MAX_TOKENS, options);
    const echoes = echoesOf(translated, this.#host);
    return translated.stream ? this.#chunks(sent, echoes, open) : this.#whole(sent, echoes, open);
  }

  async #whole(
    { request, choiceCount, warnings }: TranslatedParams,
    echoes: readonly Echo[],
    { accepted, streams }: OpenChoices,
  ): Promise<TextCompletion> {
    const answers = await collectChoices(streams);
    const echoOf = (index: number) => echoes[Math.floor(index / choiceCount)];
    const ends = answers.map(({ done }, index) => shownEnd(done, echoOf(index)));
    const logprobsOf = (index: number, output: readonly TokenLogprobText[]) => {
      const echo = echoOf(index);
      const writer = this.#writer();
      if (!echo) return writer.write(output);
      // The first choice of a prompt tells of it for all.
      const { promptLogprobs = [] } = answers[index - (index % choiceCount)]!;
      const prompt = writer.writePrompt(echo.pieces, promptLogprobs);
      return joinLogprobs(prompt, writer.write(echo.output === 'kept' ? output : []));
    };
    const textOf = (index: number, text: string) => {
      const echo = echoOf(index);
      return echo ? echo.text + (echo.output === 'kept' ? text : '') : text;
    };
    const block = stetBlock(accepted[0], ends, warnings);
    const seeds = accepted.filter((_, index) => index % choiceCount === 0).map(({ seed }) => seed);
    return {
      ...answerHead('cmpl', this.#host.info.model, accepted[0]),
      object: 'text_completion',
      choices: answers.map(({ text, logprobs }, index) => ({
        index,
        text: textOf(index, text),
        logprobs: request.logprobs === undefined ? null : logprobsOf(index, logprobs),
        finish_reason: ends[index]!.finishReason,
      })),
      usage: usageOf(ends, choiceCount),
      stet: seeds.length > 1 ? { ...block, seeds } : block,
    };
  }

  #chunks(
    { request, choiceCount, includeUsage, warnings }: TranslatedParams,
    echoes: readonly Echo[],
    { accepted, streams }: OpenChoices,
  ): AsyncIterableIterator<TextCompletionChunk> {
    const writers = streams.map(() => this.#writer());
    const head = {
      ...answerHead('cmpl', this.#host.info.model, accepted[0]),
      object: 'text_completion' as const,
      ...usageField(includeUsage),
    };
    const chunk = (index: number, text: string, logprobs: TextLogprobs | null): TextCompletionChunk => ({
      ...head,
      choices: [{ index, text, logprobs, finish_reason: null }],
    });
    const promptOf = (index: number) => Math.floor(index / choiceCount);
    // The first choice of a prompt tells of it for all, and its first commit comes before those of the others.
    const scores = new Map<number, readonly TokenLogprobText[]>();
    const unechoed = new Set(echoes.length > 0 ? streams.keys() : []);
    const promptChunk = (index: number, { text, pieces }: Echo): TextCompletionChunk => {
      const scored = scores.get(promptOf(index)) ?? [];
      return chunk(index, text, request.logprobs === undefined ? null : writers[index]!.writePrompt(pieces, scored));
    };
    const ends: Done[] = [];
    let openCount = streams.length;
    return new ChunkStream(new ChoiceStream(streams), [], ({ index, event }): TextCompletionChunk[] => {
      const echo = echoes[promptOf(index)];
      if (event.type === 'commit') {
        if (event.promptLogprobs) scores.set(promptOf(index), event.promptLogprobs);
        const prompt = echo && unechoed.delete(index) ? [promptChunk(index, echo)] : [];
        if (echo?.output === 'left-out') return prompt;
        const logprobs = event.logprobs ? writers[index]!.write(event.logprobs) : null;
        return event.text === '' && !logprobs ? prompt : [...prompt, chunk(index, event.text, logprobs)];
      }
      if (event.type !== 'done') return [];
      const end = shownEnd(event, echo);
      ends[index] = end;
      const last: TextCompletionChunk = {
        ...head,
        choices: [{ index, text: '', logprobs: null, finish_reason: end.finishReason }],
        stet: stetBlock(accepted[index]!, [end], warnings),
      };
      const isOver = --openCount === 0;
      return includeUsage && isOver ? [last, { ...head, choices: [], usage: usageOf(ends, choiceCount) }] : [last];
    });
  }

  #writer(): TextLogprobWriter {
    return new TextLogprobWriter((token) => this.#host.tokenBytes(token));
  }
}

const TEXT_FIELDS = ['prompt', 'logprobs', 'echo'];

function textFields(fields: Readonly<Record<string, unknown>>): OwnFields {
  return {
    names: TEXT_FIELDS,
    echo: fields.echo === undefined ? false : boolean(fields.echo, 'echo'),
    prompts: promptsOf(fields.prompt),
    request: fields.logprobs === undefined ? {} : { logprobs: fields.logprobs as number },
  };
}
