import { isStetError, StetError } from '@stet/backend';
import type { GenerateEvent, GenerateRequest } from '@stet/engine';
import type { AnswerSource } from './engine/answer-source.js';
import type { EngineChoice } from './engine/messages.js';
import { openWorkerEngine } from './engine/worker-engine.js';
import { Meter } from './run/meter.js';
import { crowdSize, runTwice } from './run/run-twice.js';
import { Transcript } from './run/transcript.js';
import { AnswerView } from './view/answer-view.js';
import { element, setText } from './view/element.js';
import { choiceFromAddress, EngineForm } from './view/engine-form.js';
import { hideFailure, showFailure } from './view/failure-view.js';
import { FiguresView } from './view/figures-view.js';
import { LoadingView } from './view/loading-view.js';
import { type FormRequest, RequestForm } from './view/request-form.js';
import { TwiceView } from './view/twice-view.js';

/** Failures that are the engine's and not the request's: what helps is to load it anew. */
const ENGINE_CODES: ReadonlySet<StetError['code']> = new Set([
  'STET_ERR_BACKEND_FAILED',
  'STET_ERR_DEVICE_LOST',
  'STET_ERR_ENGINE_CLOSED',
]);

/** The page: one engine at a time, one run at a time. */
export class Playground {
  readonly #engineForm = new EngineForm((choice) => void this.#open(choice));
  readonly #form = new RequestForm({
    generate: (request) => void this.#run((source, signal) => this.#generate(source, request, signal)),
    twice: (request) => void this.#run((source, signal) => this.#twice(source, request, signal)),
    stop: () => this.#running?.abort(),
  });
  readonly #loading = new LoadingView();
  readonly #answer = new AnswerView(element('answer', HTMLElement));
  readonly #figures = new FiguresView();
  readonly #twiceView = new TwiceView();
  #opening = new AbortController();
  #source: AnswerSource | undefined;
  #running: AbortController | undefined;

  constructor() {
    element('use-reference', HTMLButtonElement).onclick = () => {
      const choice = { ...readChoice(), backend: 'reference' } as const;
      this.#engineForm.show(choice);
      void this.#open(choice);
    };
    element('retry', HTMLButtonElement).onclick = () => void this.start();
  }

  /** Opens the engine that the address asks for. */
  async start(): Promise<void> {
    try {
      const choice = readChoice();
      this.#engineForm.show(choice);
      await this.#open(choice);
    } catch (error) {
      this.#failEngine(error);
    }
  }

  /** Replaces the engine, or the one that is being opened. */
  async #open(choice: EngineChoice): Promise<void> {
    this.#opening.abort();
    const opening = new AbortController();
    this.#opening = opening;
    this.#running?.abort();
    const previous = this.#source;
    this.#source = undefined;
    this.#form.state = 'idle';
    this.#figures.showInfo(undefined);
    hideFailure('failure');
    this.#loading.start();
    setText('status', 'Loading the model.');
    try {
      // One model at a time: a device may not hold two.
      await previous?.close();
      const source = await openWorkerEngine(choice, {
        signal: opening.signal,
        onProgress: (progress) => {
          if (!opening.signal.aborted) this.#loading.show(progress);
        },
      });
      if (opening.signal.aborted) {
        await source.close();
        return;
      }
      this.#source = source;
      this.#loading.end();
      this.#figures.showInfo(source.info);
      this.#form.state = 'ready';
      setText('status', 'Ready.');
    } catch (error) {
      if (!opening.signal.aborted) this.#failEngine(error);
    }
  }

  #failEngine(error: unknown): void {
    const failure = toStetError(error);
    this.#loading.end();
    setText('status', '');
    showFailure('failure', failure);
    element('use-reference', HTMLButtonElement).hidden = element('backend', HTMLSelectElement).value === 'reference';
  }

  /** One run from click to end: the buttons, the status line and what goes wrong. */
  async #run(run: (source: AnswerSource, signal: AbortSignal) => Promise<void>): Promise<void> {
    const source = this.#source;
    if (!source || this.#running) return;
    const running = new AbortController();
    this.#running = running;
    this.#form.state = 'running';
    hideFailure('request-failure');
    try {
      await run(source, running.signal);
    } catch (error) {
      const failure = toStetError(error);
      if (running.signal.aborted) {
        setText('status', 'Stopped. What is shown is final.');
      } else if (ENGINE_CODES.has(failure.code)) {
        this.#failEngine(failure);
      } else {
        setText('status', '');
        showFailure('request-failure', failure);
      }
    } finally {
      this.#running = undefined;
      // A new engine may be loading by now.
      if (this.#source) this.#form.state = 'ready';
    }
  }

  async #generate(source: AnswerSource, form: FormRequest, signal: AbortSignal): Promise<void> {
    const answer = this.#answer;
    const transcript = new Transcript();
    const meter = new Meter(performance.now());
    answer.clear();
    answer.busy = true;
    this.#figures.clear();
    setText('status', 'Generating …');
    try {
      for await (const event of source.generate({ ...form, provisional: true }, { signal })) {
        if (event.type === 'commit') meter.commit(event.tokens.length, performance.now());
        showText(event, transcript, answer);
        this.#figures.showMeter(meter.read());
        this.#figures.showEvent(event);
        if (event.type === 'done') setText('status', describeEnd(event));
      }
    } finally {
      answer.dropCandidates();
      answer.busy = false;
    }
  }

  async #twice(source: AnswerSource, form: FormRequest, signal: AbortSignal): Promise<void> {
    const { seed = drawSeed() } = form;
    const request: GenerateRequest & { seed: number } = { ...form, seed, deterministic: true, provisional: true };
    const transcripts = [new Transcript(), new Transcript()] as const;
    const { answers } = this.#twiceView;
    this.#twiceView.start(crowdSize);
    setText('status', 'Running it alone …');
    try {
      const verdict = await runTwice(source, request, {
        signal,
        onEvent: (run, event) => {
          if (run === 1 && event.type === 'accepted') setText('status', `Running it with ${crowdSize} others …`);
          showText(event, transcripts[run], answers[run]);
        },
      });
      this.#twiceView.show(verdict);
      setText('status', 'Done.');
    } finally {
      for (const answer of answers) answer.dropCandidates();
      this.#twiceView.end();
    }
  }
}

function readChoice(): EngineChoice {
  return choiceFromAddress(location.search);
}

function showText(event: GenerateEvent, transcript: Transcript, view: AnswerView): void {
  if (event.type === 'commit' || event.type === 'provisional' || event.type === 'rollback')
    view.show(transcript.apply(event));
}

function describeEnd({ finishReason, usage }: Extract<GenerateEvent, { type: 'done' }>): string {
  const why = finishReason === 'stop' ? 'the model ended the text' : 'the most that was asked for';
  return `Done: ${usage.completionTokens} tokens, ${why}.`;
}

function drawSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}

/** What is no `StetError` is a mistake of this page. */
function toStetError(error: unknown): StetError {
  if (isStetError(error)) return error;
  console.error(error);
  return new StetError('STET_ERR_BACKEND_FAILED', error instanceof Error ? error.message : String(error), {
    cause: error,
  });
}
