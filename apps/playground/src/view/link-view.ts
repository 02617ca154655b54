import { assertNever } from '@stet/backend';
import type { LinkState } from '../source/server-source.js';
import { element } from './element.js';

/** The state of the connection to a server, in words. */
export class LinkView {
  readonly #line = element('link', HTMLElement);

  show(state: LinkState | undefined): void {
    this.#line.hidden = state === undefined;
    if (state === undefined) return;
    this.#line.dataset.state = state.kind;
    this.#line.textContent = describe(state);
  }
}

function describe(state: LinkState): string {
  switch (state.kind) {
    case 'connecting':
      return state.attempt === 1 ? 'Connecting …' : `Connecting, attempt ${state.attempt} …`;
    case 'connected': {
      const { resumedCount } = state;
      if (resumedCount === 0) return 'Connected.';
      return `Connected again: ${resumedCount === 1 ? 'one answer goes' : `${resumedCount} answers go`} on.`;
    }
    case 'waiting':
      return `Reconnecting in ${(state.delayMs / 1000).toFixed(1)} s, attempt ${state.attempt}: ${state.error.message}.`;
    case 'offline':
      return state.error
        ? `Not connected: ${state.error.message}. The next request connects again.`
        : 'Not connected. The next request connects again.';
    default:
      return assertNever(state);
  }
}
