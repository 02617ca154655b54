import type { GenerateEvent, Receipt } from '@stet/engine';
import type { SourceInfo } from '../engine/answer-source.js';
import type { MeterReading } from '../run/meter.js';
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

  clear(): void {
    for (const name of ['tokens', 'rate', 'first', 'gaps', 'windows', 'rollbacks', 'recomputed', 'seed', 'hash'])
      setText(`figure-${name}`, NOTHING);
    this.#receipt.textContent = NO_RECEIPT;
    this.#copy.disabled = true;
  }

  showInfo(info: SourceInfo | undefined): void {
    for (const name of ['model', 'backend', 'device', 'guarantee', 'policy', 'fingerprint'] as const)
      setText(`info-${name}`, info?.[name] ?? NOTHING);
  }

  showMeter({ tokenCount, firstTokenMs, tokensPerSecond, gapP50Ms, gapP99Ms }: MeterReading): void {
    setText('figure-tokens', String(tokenCount));
    setText('figure-first', firstTokenMs === undefined ? NOTHING : `${milliseconds(firstTokenMs)} ms`);
    setText('figure-rate', tokensPerSecond === undefined ? NOTHING : tokensPerSecond.toFixed(1));
    if (gapP50Ms !== undefined && gapP99Ms !== undefined)
      setText('figure-gaps', `${milliseconds(gapP50Ms)} / ${milliseconds(gapP99Ms)} ms`);
  }

  showEvent(event: GenerateEvent): void {
    if (event.type === 'accepted') setText('figure-seed', String(event.seed));
    if (event.type === 'commit') setText('figure-hash', event.hash);
    if (event.type !== 'done') return;
    const { windows, rollbacks, recomputedTokens } = event.stats;
    setText('figure-windows', String(windows));
    setText('figure-rollbacks', String(rollbacks));
    setText('figure-recomputed', String(recomputedTokens));
    if (event.receipt) this.#showReceipt(event.receipt);
  }

  #showReceipt(receipt: Receipt): void {
    this.#receipt.textContent = JSON.stringify(receipt, null, 2);
    this.#copy.disabled = false;
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
