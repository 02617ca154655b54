import { assertNever } from '@stet/backend';
import type { OpenProgress } from '../source/messages.js';
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
    if (done === total) {
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
  if (done === total) return READY_SOON;
  const megabytes = `${(done / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB`;
  switch (phase) {
    case 'fetch':
      return `Fetching the model: ${megabytes}`;
    case 'digest':
      return `Hashing the model: ${megabytes}`;
    case 'weights':
      return `Loading weights: ${done} of ${total} tensors`;
    default:
      return assertNever(phase);
  }
}
