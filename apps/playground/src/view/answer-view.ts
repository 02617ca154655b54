import type { TextChange } from '../run/transcript.js';

/** How long what was rolled back stays visible; style.css fades it in that time. */
const WITHDRAWN_MS = 1600;

/** The text of one answer: final, then what is being struck out, then candidates. */
export class AnswerView {
  readonly #element: HTMLElement;
  readonly #committed = new Text();
  readonly #candidates = document.createElement('span');

  constructor(element: HTMLElement) {
    this.#element = element;
    this.#candidates.className = 'candidate';
    this.clear();
  }

  clear(): void {
    this.#committed.data = '';
    this.#candidates.textContent = '';
    this.#element.replaceChildren(this.#committed, this.#candidates);
  }

  /** Screen readers wait until the answer is complete. */
  set busy(busy: boolean) {
    this.#element.ariaBusy = String(busy);
  }

  show({ committed, withdrawn, candidates }: TextChange): void {
    this.#committed.appendData(committed);
    if (withdrawn !== '') this.#strike(withdrawn);
    this.#candidates.textContent = candidates;
  }

  /** What is not final when an answer is cut short will never be. */
  dropCandidates(): void {
    this.#candidates.textContent = '';
  }

  #strike(text: string): void {
    const struck = document.createElement('del');
    struck.className = 'withdrawn';
    struck.textContent = text;
    this.#candidates.before(struck);
    setTimeout(() => struck.remove(), WITHDRAWN_MS);
  }
}
