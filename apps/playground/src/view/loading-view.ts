import { assertNever } from '@stet/backend';
import type { OpenProgress } from '../engine/messages.js';
import { element, setText } from './element.js';

/** Kernels are being compiled and tested. */
const READY_SOON = 'Getting ready …';

/** What opening an engine is at, as a bar with words. */
export class LoadingView {
  readonly #box = element('loading', HTMLElement);
  readonly #bar = element('loading-bar', HTMLProgressElement);

  start(): void {
    setText('loading-phase', 'Starting …');
    this.#bar.removeAttribute('value');
    this.#box.hidden = false;
  }

  show(progress: OpenProgress): void {
    const { done, total } = progress;
    setText('loading-phase', describe(progress));
    if (total === undefined || done === total) {
      // Nobody knows how long it still takes.
      this.#bar.removeAttribute('value');
    } else {
      this.#bar.max = total;
      this.#bar.value = done;
    }
  }

  end(): void {
    this.#box.hidden = true;
  }
}

function describe({ phase, done, total }: OpenProgress): string {
  const of = (unit: string, scale: number, digits: number) => {
    const known = total === undefined ? '' : ` of ${(total / scale).toFixed(digits)}`;
    return `${(done / scale).toFixed(digits)}${known} ${unit}`;
  };
  switch (phase) {
    case 'fetch':
      return `Fetching the model: ${of('MB', 1e6, 1)}`;
    case 'digest':
      return done === total ? READY_SOON : `Hashing the model: ${of('MB', 1e6, 1)}`;
    case 'weights':
      return done === total ? READY_SOON : `Loading weights: ${of('tensors', 1, 0)}`;
    default:
      return assertNever(phase);
  }
}
