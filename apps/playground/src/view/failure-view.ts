import type { StetError } from '@stet/backend';
import { element, setText } from './element.js';

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
};

/** Shows an error in the elements whose ids begin with `prefix`. */
export function showFailure(prefix: string, error: StetError): void {
  setText(`${prefix}-message`, sentence(error.message));
  setText(`${prefix}-hint`, PAGE_HINTS[error.code] ?? error.hint);
  setText(`${prefix}-code`, error.code);
  element(prefix, HTMLElement).hidden = false;
}

export function hideFailure(prefix: string): void {
  element(prefix, HTMLElement).hidden = true;
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
