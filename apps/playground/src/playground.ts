import type { StetError } from '@stet/backend';
import { type SeededRequest, showText, toStetError } from './chat/chat.js';
import { ChatList } from './chat/chat-list.js';
import { runTwice } from './run/run-twice.js';
import { Transcript } from './run/transcript.js';
import type { AnswerSource } from './source/answer-source.js';
import { choiceFromAddress, defaultPolicy, type SourceChoice, serverBase } from './source/choice.js';
import { openSource } from './source/open-source.js';
import { isServer } from './source/server-api.js';
import { element } from './view/element.js';
import { EngineForm } from './view/engine-form.js';
import { FailureView } from './view/failure-view.js';
import { FiguresView } from './view/figures-view.js';
import { LinkView } from './view/link-view.js';
import { LoadingView } from './view/loading-view.js';
import { besideText, TwiceView } from './view/twice-view.js';

/** Failures that are the engine's and not the request's: what helps is to load it anew. */
const ENGINE_CODES: ReadonlySet<StetError['code']> = new Set([
  'STET_ERR_BACKEND_FAILED',
  'STET_ERR_DEVICE_LOST',
  'STET_ERR_ENGINE_CLOSED',
]);
/** Where `stet serve` listens unless it is told otherwise. */
const USUAL_SERVER = 'http://127.0.0.1:8642/';
/** How long this page's own server may take to say that it is one. */
const OWN_SERVER_MS = 3_000;

/** The page: one source of answers at a time, and chats that share it. */
export class Playground {
  readonly #engineForm = new EngineForm(() => void this.#openChosen());
  readonly #loading = new LoadingView();
  readonly #link = new LinkView();
  readonly #failure = new FailureView(element('failure', HTMLElement));
  readonly #figures = new FiguresView();
  readonly #twiceView = new TwiceView();
  readonly #chats = new ChatList(
    {
      twice: (chat, source, request, signal) => this.#twice(chat, source, request, signal),
      takesFailure: (error) => this.#takesFailure(error),
    },
    this.#figures,
  );
  #opening = new AbortController();
  #source: AnswerSource | undefined;
  #place: SourceChoice['kind'] = 'browser';

  constructor() {
    element('use-reference', HTMLButtonElement).onclick = () =>
      void this.#open({ kind: 'browser', backend: 'reference', policy: defaultPolicy });
    element('retry', HTMLButtonElement).onclick = () => void this.#openChosen();
  }

  /** Opens what the address asks for, or else the server that this page comes from, or else an engine in the page. */
  async start(): Promise<void> {
    try {
      const asked = choiceFromAddress(location.search);
      if (asked === undefined || !('address' in asked || 'backend' in asked)) {
        const own = await ownServer();
        if (own !== undefined) await this.#open({ kind: 'server', address: own });
        else if (asked === undefined) await this.#open({ kind: 'browser', backend: 'webgpu', policy: defaultPolicy });
        else await this.#open({ kind: 'server', address: USUAL_SERVER });
      } else await this.#open(asked);
    } catch (error) {
      this.#fail(toStetError(error));
    }
  }

  async #openChosen(): Promise<void> {
    try {
      if (this.#engineForm.lacksServer)
        await this.#open({ kind: 'server', address: (await ownServer()) ?? USUAL_SERVER });
      else await this.#open(this.#engineForm.read());
    } catch (error) {
      void this.#leave();
      this.#fail(toStetError(error));
    }
  }

  /** Replaces the source, or the one that is being opened. */
  async #open(choice: SourceChoice): Promise<void> {
    const leaving = this.#leave();
    const opening = new AbortController();
    this.#opening = opening;
    this.#engineForm.show(choice);
    this.#failure.hide();
    this.#link.show(undefined);
    if (choice.kind === 'browser') this.#loading.start();
    else this.#loading.end();
    this.#chats.status = choice.kind === 'browser' ? 'Loading the model.' : 'Connecting.';
    try {
      // One model at a time: a device may not hold two.
      await leaving;
      const { key } = this.#engineForm;
      const source = await openSource(choice, {
        ...(key !== undefined && { key }),
        signal: opening.signal,
        onProgress: (progress) => {
          if (!opening.signal.aborted) this.#loading.show(progress);
        },
        onState: (state) => {
          if (this.#opening === opening) this.#link.show(state);
        },
      });
      if (opening.signal.aborted) {
        await source.close();
        return;
      }
      this.#loading.end();
      this.#arrive(source, choice);
    } catch (error) {
      if (!opening.signal.aborted) this.#fail(toStetError(error));
    }
  }

  /** From here on there is nobody to ask. Resolves when who there was has freed everything. */
  async #leave(): Promise<void> {
    this.#opening.abort();
    const previous = this.#source;
    this.#source = undefined;
    this.#chats.source = undefined;
    this.#figures.showInfo(undefined, '');
    await previous?.close();
  }

  #arrive(source: AnswerSource, choice: SourceChoice): void {
    this.#source = source;
    this.#place = choice.kind;
    this.#chats.source = source;
    this.#figures.showInfo(source.info, choice.kind === 'server' ? choice.address : 'in this page');
  }

  #fail(error: StetError): void {
    this.#loading.end();
    this.#link.show(undefined);
    this.#chats.status = '';
    this.#failure.show(error);
    const backend = element('backend', HTMLSelectElement).value;
    element('use-reference', HTMLButtonElement).hidden = backend !== 'webgpu';
    if (error.code === 'STET_ERR_UNAUTHORIZED') this.#engineForm.focusKey();
  }

  /** A server goes on after its failures, and so does the connection to it; an engine of this page does not. */
  #takesFailure(error: StetError): boolean {
    if (this.#place === 'server' || !ENGINE_CODES.has(error.code)) return false;
    this.#fail(error);
    return true;
  }

  async #twice(
    chat: { readonly title: string; readonly loadCount: number; status: string },
    source: AnswerSource,
    request: SeededRequest,
    signal: AbortSignal,
  ): Promise<void> {
    const { loadCount } = chat;
    const transcripts = [new Transcript(), new Transcript()] as const;
    const { answers } = this.#twiceView;
    this.#twiceView.start(chat.title, request, loadCount);
    this.#chats.isComparing = true;
    chat.status = 'Alone …';
    try {
      const verdict = await runTwice(source, request, {
        loadCount,
        random: Math.random,
        signal,
        onEvent: (run, event) => {
          if (run === 1 && event.type === 'accepted') chat.status = `${besideText(loadCount)} …`;
          showText(event, transcripts[run], answers[run]);
        },
      });
      this.#twiceView.show(verdict);
      chat.status = 'Done.';
    } finally {
      this.#twiceView.end();
      this.#chats.isComparing = false;
    }
  }
}

/** The server that this page comes from, where that is one that answers requests. */
async function ownServer(): Promise<string | undefined> {
  if (!location.protocol.startsWith('http')) return undefined;
  const base = serverBase(new URL('.', location.href).href);
  return (await isServer(base, AbortSignal.timeout(OWN_SERVER_MS))) ? base : undefined;
}
