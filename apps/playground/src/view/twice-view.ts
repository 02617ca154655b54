import type { Verdict } from '../run/run-twice.js';
import { AnswerView } from './answer-view.js';
import { element, setText } from './element.js';

/** Two answers to one request side by side, and whether they are the same. */
export class TwiceView {
  readonly answers = [
    new AnswerView(element('twice-alone', HTMLElement)),
    new AnswerView(element('twice-crowd', HTMLElement)),
  ] as const;
  readonly #section = element('twice-section', HTMLElement);
  readonly #verdict = element('verdict', HTMLElement);

  start(crowdSize: number): void {
    setText('twice-crowd-title', `With ${crowdSize} others in the batch`);
    setText('twice-alone-hash', '');
    setText('twice-crowd-hash', '');
    this.#verdict.textContent = '';
    delete this.#verdict.dataset.verdict;
    for (const answer of this.answers) {
      answer.clear();
      answer.busy = true;
    }
    this.#section.hidden = false;
  }

  show({ hashes: [alone, crowded], firstDifference }: Verdict): void {
    setText('twice-alone-hash', alone);
    setText('twice-crowd-hash', crowded);
    const isSame = firstDifference === undefined && alone === crowded;
    this.#verdict.dataset.verdict = isSame ? 'same' : 'different';
    this.#verdict.textContent = isSame
      ? 'The same hash: every token is equal.'
      : `Different from output token ${firstDifference ?? 0} on.`;
  }

  end(): void {
    for (const answer of this.answers) answer.busy = false;
  }
}
