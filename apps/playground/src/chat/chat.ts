import { isStetError, StetError } from '@stet/backend';
import type { GenerateEvent } from '@stet/engine';
import { type Figures, figuresAfter, noFigures } from '../run/figures.js';
import { Meter } from '../run/meter.js';
import { Transcript } from '../run/transcript.js';
import type { AnswerRequest, AnswerSource } from '../source/answer-source.js';
import type { AnswerView } from '../view/answer-view.js';
import { ChatPanel } from '../view/chat-panel.js';
import { type ConversationKind, canAnswer, promptAfter, type Turn, withoutLastAnswer } from './conversation.js';

/** A request whose seed is known, to be run more than once. */
export type SeededRequest = AnswerRequest & { readonly seed: number };

export interface ChatHooks {
  /** Something changed that is shown outside of the panel: whether it runs, its figures. */
  onChange(chat: Chat): void;
  /** Runs a request twice; rejects as an answer does. */
  twice(chat: Chat, source: AnswerSource, request: SeededRequest, signal: AbortSignal): Promise<void>;
  /** Says whether what went wrong is the source's own matter, which then shows it. */
  takesFailure(error: StetError): boolean;
}

export interface ChatOptions {
  readonly number: number;
  /** What is in the field at first. */
  readonly prompt: string;
  readonly hooks: ChatHooks;
}

/** One conversation: its turns, its parameters and at most one run at a time, beside those of other chats. */
export class Chat {
  readonly title: string;
  readonly tabId: string;
  readonly panel: ChatPanel;
  readonly #hooks: ChatHooks;
  readonly #firstPrompt: string;
  #source: AnswerSource | undefined;
  #turns: readonly Turn[] = [];
  #running: AbortController | undefined;
  #isComparing = false;
  #figures = noFigures;

  constructor({ number, prompt, hooks }: ChatOptions) {
    this.title = `Chat ${number}`;
    this.tabId = `tab-${number}`;
    this.#hooks = hooks;
    this.#firstPrompt = prompt;
    this.panel = new ChatPanel(`chat-${number}`, this.tabId, prompt, {
      generate: () => void this.#send(),
      stop: () => this.stop(),
      again: () => void this.#again(),
      clear: () => this.#clear(),
      twice: () => void this.#twice(),
    });
    this.#showState();
  }

  get figures(): Figures {
    return this.#figures;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Random requests beside the second of two runs. */
  get loadCount(): number {
    return this.panel.loadCount;
  }

  set status(text: string) {
    this.panel.status = text;
  }

  /** Whoever answers from now on; what still runs is stopped. */
  set source(source: AnswerSource | undefined) {
    this.stop();
    this.#source = source;
    if (source) {
      this.panel.failure.hide();
      this.panel.showKind(this.#kind, source.info);
    }
    this.panel.status = source ? 'Ready.' : '';
    this.#showState();
  }

  /** Whether some chat is run twice just now. */
  set isComparing(isComparing: boolean) {
    this.#isComparing = isComparing;
    this.#showState();
  }

  stop(): void {
    this.#running?.abort();
  }

  get #kind(): ConversationKind {
    return this.#source?.info.chatTemplate === 'present' ? 'chat' : 'text';
  }

  /** The turns with what is in the field. */
  #turnsAsked(): readonly Turn[] {
    const { prompt } = this.panel;
    return prompt === '' ? this.#turns : [...this.#turns, { from: 'user', text: prompt }];
  }

  async #send(): Promise<void> {
    const turns = this.#turnsAsked();
    if (!this.panel.isValid(canAnswer(this.#kind, turns))) return;
    const [before, { prompt }] = [this.#turns, this.panel];
    this.panel.prompt = '';
    const isAnswered = await this.#answer(turns);
    if (isAnswered) return;
    // Nothing came of it: as if it had not been asked.
    this.#turns = before;
    this.panel.showTurns(before);
    if (this.panel.prompt === '') this.panel.prompt = prompt;
    this.#showState();
  }

  async #again(): Promise<void> {
    const before = this.#turns;
    if (!this.panel.isValid(true)) return;
    if (await this.#answer(withoutLastAnswer(before))) return;
    this.#turns = before;
    this.panel.showTurns(before);
    this.#showState();
  }

  #clear(): void {
    this.#turns = [];
    this.#figures = noFigures;
    this.panel.showTurns([]);
    this.panel.failure.hide();
    this.panel.prompt = this.panel.prompt || this.#firstPrompt;
    this.panel.status = this.#source ? 'Ready.' : '';
    this.#showState();
  }

  async #twice(): Promise<void> {
    // A conversation whose end is an answer is asked as it was for that answer.
    const turns = this.panel.prompt === '' ? withoutLastAnswer(this.#turns) : this.#turnsAsked();
    if (!this.panel.isValid(canAnswer(this.#kind, turns))) return;
    const { seed = drawSeed(), ...parameters } = this.panel.parameters();
    const request = { ...promptAfter(this.#kind, turns, this.panel.system), ...parameters, seed, provisional: true };
    await this.#run((source, signal) => this.#hooks.twice(this, source, request, signal));
  }

  /** Whether anything final came. */
  async #answer(turns: readonly Turn[]): Promise<boolean> {
    const request: AnswerRequest = {
      ...promptAfter(this.#kind, turns, this.panel.system),
      ...this.panel.parameters(),
      provisional: true,
    };
    let text = '';
    this.#turns = turns;
    this.panel.showTurns(turns);
    const answer = this.panel.addAnswer();
    await this.#run(async (source, signal) => {
      try {
        await this.#stream(source.generate(request, { signal }), answer, (committed) => {
          text += committed;
        });
      } finally {
        const tokenCount = this.#figures.reading.tokenCount;
        if (tokenCount > 0) this.#turns = [...turns, { from: 'model', text }];
      }
    });
    return this.#turns !== turns;
  }

  async #stream(
    events: AsyncIterable<GenerateEvent>,
    answer: AnswerView,
    onText: (text: string) => void,
  ): Promise<void> {
    const transcript = new Transcript();
    const meter = new Meter(performance.now());
    this.#figures = noFigures;
    this.panel.status = 'Generating …';
    answer.busy = true;
    try {
      for await (const event of events) {
        if (event.type === 'commit') {
          meter.commit(event.tokens.length, performance.now());
          onText(event.text);
        }
        showText(event, transcript, answer);
        this.#figures = figuresAfter(this.#figures, event, meter.read());
        if (event.type === 'done') this.panel.status = describeEnd(event);
        this.#hooks.onChange(this);
      }
    } finally {
      answer.dropCandidates();
      answer.busy = false;
    }
  }

  /** One run from click to end: the buttons, the status line and what goes wrong. */
  async #run(run: (source: AnswerSource, signal: AbortSignal) => Promise<void>): Promise<void> {
    const source = this.#source;
    if (!source || this.#running) return;
    const running = new AbortController();
    this.#running = running;
    this.panel.failure.hide();
    this.#showState();
    try {
      await run(source, running.signal);
    } catch (error) {
      this.#showEnd(toStetError(error), running.signal);
    } finally {
      this.#running = undefined;
      this.#showState();
    }
  }

  #showEnd(error: StetError, signal: AbortSignal): void {
    if (signal.aborted) {
      this.panel.status = 'Stopped. What is shown is final.';
      return;
    }
    this.panel.status = '';
    if (!this.#hooks.takesFailure(error)) this.panel.failure.show(error);
  }

  #showState(): void {
    const state = this.#running ? 'running' : this.#source ? 'ready' : 'idle';
    this.panel.show(state, { hasTurns: this.#turns.length > 0, isComparing: this.#isComparing });
    this.#hooks.onChange(this);
  }
}

export function showText(event: GenerateEvent, transcript: Transcript, view: AnswerView): void {
  if (event.type === 'commit' || event.type === 'provisional' || event.type === 'rollback')
    view.show(transcript.apply(event));
}

/** What is no `StetError` is a mistake of this page. */
export function toStetError(error: unknown): StetError {
  if (isStetError(error)) {
    // Why no ticket was given says more than that none was.
    return error.code === 'STET_ERR_CONNECTION' && isStetError(error.cause) ? error.cause : error;
  }
  console.error(error);
  return new StetError('STET_ERR_BACKEND_FAILED', error instanceof Error ? error.message : String(error), {
    cause: error,
  });
}

function describeEnd({ finishReason, usage }: Extract<GenerateEvent, { type: 'done' }>): string {
  const why = finishReason === 'stop' ? 'the model or a stop text ended it' : 'the most that was asked for';
  return `Done: ${usage.completionTokens} tokens, ${why}.`;
}

function drawSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}
