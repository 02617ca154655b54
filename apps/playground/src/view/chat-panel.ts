import type { ConversationKind, Turn } from '../chat/conversation.js';
import type { AnswerRequest, SourceInfo } from '../source/answer-source.js';
import { AnswerView } from './answer-view.js';
import { element, part } from './element.js';
import { FailureView } from './failure-view.js';

/** `idle`: there is nobody to ask; `running`: an answer is on its way. */
export type PanelState = 'idle' | 'ready' | 'running';

/** What the fields say; the seed is absent where one is to be drawn. */
export type PanelParameters = Required<Pick<AnswerRequest, 'maxTokens' | 'temperature' | 'topP' | 'deterministic'>> &
  Pick<AnswerRequest, 'seed' | 'stop'>;

export interface PanelActions {
  generate(): void;
  stop(): void;
  again(): void;
  clear(): void;
  twice(): void;
}

/** The fields, the conversation and the buttons of one chat, made from the template of index.html. */
export class ChatPanel {
  readonly root: HTMLElement;
  readonly failure: FailureView;
  readonly #form: HTMLFormElement;
  readonly #prompt: HTMLTextAreaElement;
  readonly #conversation: HTMLElement;
  readonly #buttons: Readonly<Record<'generate' | 'stop-button' | 'again' | 'clear' | 'twice', HTMLButtonElement>>;

  constructor(id: string, tabId: string, prompt: string, actions: PanelActions) {
    const copy = element('chat-template', HTMLTemplateElement).content.cloneNode(true) as DocumentFragment;
    this.root = copy.firstElementChild as HTMLElement;
    this.root.id = id;
    this.root.setAttribute('aria-labelledby', tabId);
    const button = (name: string) => part(this.root, name, HTMLButtonElement);
    this.failure = new FailureView(part(this.root, 'failure', HTMLElement));
    this.#form = part(this.root, 'form', HTMLFormElement);
    this.#prompt = part(this.root, 'prompt', HTMLTextAreaElement);
    this.#conversation = part(this.root, 'conversation', HTMLElement);
    this.#buttons = {
      generate: button('generate'),
      'stop-button': button('stop-button'),
      again: button('again'),
      clear: button('clear'),
      twice: button('twice'),
    };
    this.#prompt.value = prompt;
    this.#listen(actions);
  }

  /** What the user wrote to be answered. */
  get prompt(): string {
    return this.#prompt.value;
  }

  set prompt(text: string) {
    this.#prompt.value = text;
  }

  get system(): string {
    return part(this.root, 'system', HTMLTextAreaElement).value;
  }

  /** Random requests beside the second of two runs. */
  get loadCount(): number {
    return this.#input('load').valueAsNumber;
  }

  set status(text: string) {
    part(this.root, 'status', HTMLElement).textContent = text;
  }

  /** Asks the browser to check the fields, and shows the user what is wrong. */
  isValid(canAnswer: boolean): boolean {
    this.#prompt.setCustomValidity(canAnswer ? '' : 'There is nothing to answer yet.');
    return this.#form.reportValidity();
  }

  parameters(): PanelParameters {
    const seed = this.#input('seed');
    const stop = part(this.root, 'stop', HTMLTextAreaElement)
      .value.split('\n')
      .filter((line) => line !== '');
    return {
      maxTokens: this.#input('max-tokens').valueAsNumber,
      temperature: this.#input('temperature').valueAsNumber,
      topP: this.#input('top-p').valueAsNumber,
      deterministic: this.#input('deterministic').checked,
      ...(seed.value !== '' && { seed: seed.valueAsNumber }),
      ...(stop.length > 0 && { stop }),
    };
  }

  showKind(kind: ConversationKind, { contextLength }: Pick<SourceInfo, 'contextLength'>): void {
    const isChat = kind === 'chat';
    this.#conversation.dataset.kind = kind;
    part(this.root, 'system-field', HTMLElement).hidden = !isChat;
    part(this.root, 'prompt-label', HTMLElement).textContent = isChat ? 'Message' : 'Prompt';
    this.#prompt.placeholder = isChat ? '' : 'Nothing more: the text goes on by itself';
    this.#input('max-tokens').max = String(contextLength);
  }

  /** `isComparing`: some chat is run twice, and that is done one at a time. */
  show(state: PanelState, { hasTurns, isComparing }: { hasTurns: boolean; isComparing: boolean }): void {
    const { generate, 'stop-button': stop, again, clear, twice } = this.#buttons;
    // A button that has the focus takes it along when it is disabled.
    const hadFocus = document.activeElement === stop;
    generate.disabled = state !== 'ready';
    stop.disabled = state !== 'running';
    again.disabled = state !== 'ready' || !hasTurns;
    clear.disabled = state === 'running' || !hasTurns;
    twice.disabled = state !== 'ready' || isComparing;
    this.root.dataset.turns = hasTurns ? 'some' : 'none';
    if (hadFocus && state === 'ready') generate.focus();
  }

  showTurns(turns: readonly Turn[]): void {
    this.#conversation.replaceChildren(...turns.map(({ from, text }) => turnElement(from, text)));
  }

  /** Adds an answer that is about to come. */
  addAnswer(): AnswerView {
    const answer = turnElement('model', '');
    answer.dataset.part = 'answer';
    this.#conversation.append(answer);
    return new AnswerView(answer);
  }

  #input(name: string): HTMLInputElement {
    return part(this.root, name, HTMLInputElement);
  }

  #listen(actions: PanelActions): void {
    const { 'stop-button': stop, again, clear, twice, generate } = this.#buttons;
    this.#form.onsubmit = (event) => {
      event.preventDefault();
      // Enter submits even where the button is disabled.
      if (!generate.disabled) actions.generate();
    };
    stop.onclick = () => actions.stop();
    again.onclick = () => actions.again();
    clear.onclick = () => actions.clear();
    twice.onclick = () => actions.twice();
    this.#prompt.oninput = () => this.#prompt.setCustomValidity('');
    this.#prompt.onkeydown = (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !generate.disabled) actions.generate();
    };
  }
}

function turnElement(from: Turn['from'], text: string): HTMLElement {
  const turn = document.createElement('p');
  turn.className = from === 'user' ? 'turn asked' : 'turn answer';
  turn.textContent = text;
  return turn;
}
