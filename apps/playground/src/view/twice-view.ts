import { assertNever } from '@stet/backend';
import type { DifferentPlace, Verdict } from '../run/compare.js';
import type { AnswerRequest } from '../source/answer-source.js';
import { AnswerView } from './answer-view.js';
import { element, setText } from './element.js';

/** Digits of a hash that tell it from others at a glance; the whole stands beside. */
const SHORT_HASH = 16;

/** Two answers to one request side by side, and whether they are the same. */
export class TwiceView {
  readonly answers = [
    new AnswerView(element('twice-alone', HTMLElement)),
    new AnswerView(element('twice-loaded', HTMLElement)),
  ] as const;
  readonly #section = element('twice-section', HTMLElement);
  readonly #verdict = element('verdict', HTMLElement);

  start(chat: string, { deterministic, maxTokens }: AnswerRequest, loadCount: number): void {
    const kind = deterministic ? 'deterministic' : 'ordinary';
    setText('twice-request', `The ${kind} request of ${chat}, ${maxTokens} tokens at most.`);
    setText('twice-loaded-title', besideText(loadCount));
    setText('twice-alone-hash', '');
    setText('twice-loaded-hash', '');
    this.#verdict.textContent = '';
    delete this.#verdict.dataset.verdict;
    for (const answer of this.answers) {
      answer.clear();
      answer.busy = true;
    }
    this.#section.hidden = false;
  }

  show(verdict: Verdict): void {
    const [alone, loaded] = verdict.hashes;
    setText('twice-alone-hash', alone);
    setText('twice-loaded-hash', loaded);
    this.#verdict.dataset.verdict = verdict.kind;
    switch (verdict.kind) {
      case 'equal':
        this.#verdict.textContent = `Equal, ${verdict.tokenCount} tokens, hash ${alone.slice(0, SHORT_HASH)}.`;
        break;
      case 'different': {
        const [first, second] = verdict.places;
        this.#verdict.textContent = `Different from output token ${verdict.index} on: ${tokenText(first)} first, ${tokenText(second)} second.`;
        for (const [index, place] of verdict.places.entries()) this.answers[index]!.mark(place);
        break;
      }
      default:
        assertNever(verdict);
    }
  }

  end(): void {
    for (const answer of this.answers) {
      answer.dropCandidates();
      answer.busy = false;
    }
  }
}

/** What the second run has beside it. */
export function besideText(loadCount: number): string {
  if (loadCount === 0) return 'Alone again';
  return loadCount === 1 ? 'Beside one other' : `Beside ${loadCount} others`;
}

function tokenText({ token }: DifferentPlace): string {
  return token === undefined ? 'nothing' : `${JSON.stringify(token.text)} (${token.token})`;
}
