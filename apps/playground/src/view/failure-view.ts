import type { StetError } from '@stet/backend';
import { part } from './element.js';

/** Hints of errors are written for programs in general; in a page some need other words. */
const PAGE_HINTS: Partial<Record<StetError['code'], string>> = {
  STET_ERR_BACKEND_UNAVAILABLE:
    'Open this page over https or from localhost, in a browser with WebGPU (Chrome or Edge 113, Firefox 141, Safari 26, or later) and with graphics acceleration switched on; or run the model on the reference, which is slow and gives the same deterministic answers.',
  STET_ERR_CANONICAL_REFUSED:
    'This device does not compute what the numerics ask for. Run the model on the reference, which is slow and gives the same deterministic answers.',
  STET_ERR_DEVICE_LOST:
    'The device went away (driver reset, sleep, memory). Try again: deterministic answers stay the same.',
  STET_ERR_BACKEND_FAILED: 'Try again, or choose another backend.',
  STET_ERR_DOWNLOAD: 'Check the network, then try again.',
  STET_ERR_MODEL_NOT_FOUND: "A file of the model is missing on this page's server: build the page again.",
  STET_ERR_UNAUTHORIZED: 'Enter a key of this server, then connect again.',
  STET_ERR_CONNECTION: `Check the address, and that the server runs. One that this page's own server is not must take its origin: stet serve --allow-origin ${location.origin}. A page that came over https reaches only servers over https.`,
  STET_ERR_FORBIDDEN_ORIGIN: `Start the server with --allow-origin ${location.origin}.`,
};

/** A box with an error: what was wrong, what to do, and its code. */
export class FailureView {
  constructor(private readonly box: HTMLElement) {}

  show(error: StetError): void {
    part(this.box, 'failure-message', HTMLElement).textContent = sentence(error.message);
    part(this.box, 'failure-hint', HTMLElement).textContent = PAGE_HINTS[error.code] ?? error.hint;
    part(this.box, 'failure-code', HTMLElement).textContent = error.code;
    this.box.hidden = false;
  }

  hide(): void {
    this.box.hidden = true;
  }
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
