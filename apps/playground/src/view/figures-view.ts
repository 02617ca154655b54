import type { Figures } from '../run/figures.js';
import type { SourceInfo } from '../source/answer-source.js';
import { element, setText } from './element.js';

const NOTHING = '–';
const NO_RECEIPT = 'A deterministic answer has one.';
const COPIED_MS = 2000;

/** The figures beside an answer, its receipt, and what it runs on. */
export class FiguresView {
  readonly #receipt = element('receipt', HTMLPreElement);
  readonly #copy = element('copy-receipt', HTMLButtonElement);

  constructor() {
    this.#copy.onclick = () => void this.#copyReceipt();
  }

  /** `place`: in this page, or on which server. */
  showInfo(info: SourceInfo | undefined, place: string): void {
    setText('info-place', info ? place : NOTHING);
    for (const name of ['model', 'backend', 'device', 'guarantee', 'policy', 'fingerprint'] as const) {
      setText(`info-${name}`, info?.[name] ?? NOTHING);
      // A server does not tell all of it.
      element(`info-${name}`, HTMLElement).parentElement!.hidden = info !== undefined && info[name] === undefined;
    }
  }

  show({ reading, seed, hash, windows, rollbacks, recomputedTokens, receipt }: Figures): void {
    const { tokenCount, firstTokenMs, tokensPerSecond, gapP50Ms, gapP99Ms } = reading;
    const hasGaps = gapP50Ms !== undefined && gapP99Ms !== undefined;
    const values = {
      tokens: tokenCount || undefined,
      rate: tokensPerSecond?.toFixed(1),
      first: firstTokenMs === undefined ? undefined : `${milliseconds(firstTokenMs)} ms`,
      gaps: hasGaps ? `${milliseconds(gapP50Ms)} / ${milliseconds(gapP99Ms)} ms` : undefined,
      windows,
      rollbacks,
      recomputed: recomputedTokens,
      seed,
      hash,
    };
    for (const [name, value] of Object.entries(values)) setText(`figure-${name}`, String(value ?? NOTHING));
    const text = receipt ? JSON.stringify(receipt, null, 2) : NO_RECEIPT;
    if (this.#receipt.textContent === text) return;
    this.#receipt.textContent = text;
    this.#copy.disabled = !receipt;
  }

  /** Pages that are not served securely have no clipboard: then the receipt is selected, to be copied by hand. */
  async #copyReceipt(): Promise<void> {
    const label = this.#copy.textContent;
    try {
      await navigator.clipboard.writeText(this.#receipt.textContent);
      this.#copy.textContent = 'Copied';
    } catch {
      getSelection()?.selectAllChildren(this.#receipt);
      this.#copy.textContent = 'Selected: copy it';
    }
    this.#copy.disabled = true;
    setTimeout(() => {
      this.#copy.textContent = label;
      this.#copy.disabled = this.#receipt.textContent === NO_RECEIPT;
    }, COPIED_MS);
  }
}

function milliseconds(ms: number): string {
  return ms < 100 ? ms.toFixed(1) : ms.toFixed(0);
}
