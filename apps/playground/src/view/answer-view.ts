import type { DifferentPlace } from '../run/compare.js';
import type { TextChange } from '../run/transcript.js';

/** How long what was rolled back stays visible; the style fades it in that time. */
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

  /** Marks a place of the final text; an answer that has ended there gets a sign. */
  mark({ token, start, end }: DifferentPlace): void {
    const text = this.#committed.data;
    const mark = document.createElement('mark');
    mark.textContent = token === undefined ? '∎' : text.slice(start, end);
    mark.title = token === undefined ? 'the answer ends here' : `token ${token.token}`;
    this.#element.replaceChildren(text.slice(0, start), mark, text.slice(end));
  }

  #strike(text: string): void {
    const struck = document.createElement('del');
    struck.className = 'withdrawn';
    struck.textContent = text;
    this.#candidates.before(struck);
    setTimeout(() => struck.remove(), WITHDRAWN_MS);
  }
}
