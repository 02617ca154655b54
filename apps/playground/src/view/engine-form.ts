import { addressWithChoice, defaultPolicy, type SourceChoice, type SourceName, serverBase } from '../source/choice.js';
import type { PolicyName } from '../source/messages.js';
import { element } from './element.js';

/** The choice of who answers, kept in the page's address so that it can be sent to others; keys stay in their field. */
export class EngineForm {
  readonly #backend = element('backend', HTMLSelectElement);
  readonly #policy = element('policy', HTMLSelectElement);
  readonly #server = element('server', HTMLInputElement);
  readonly #key = element('key', HTMLInputElement);

  /** `onChange` throws nothing; `choose` in it reads what is meant. */
  constructor(onChange: () => void) {
    this.#backend.onchange = () => {
      this.#showFields();
      onChange();
    };
    this.#policy.onchange = onChange;
    // A key is that of one server, and goes to no other.
    this.#server.oninput = () => {
      this.#key.value = '';
    };
    element('engine-form', HTMLFormElement).onsubmit = (event) => {
      event.preventDefault();
      onChange();
    };
  }

  /** Absent where none was entered. */
  get key(): string | undefined {
    return this.#key.value.trim() || undefined;
  }

  /** Whether a server is chosen and none is named. */
  get lacksServer(): boolean {
    return this.#backend.value === 'server' && this.#server.value.trim() === '';
  }

  /** What the form says. Throws `STET_ERR_UNSUPPORTED` for an address that is none. */
  read(): SourceChoice {
    const backend = this.#backend.value as SourceName;
    if (backend === 'server') return { kind: 'server', address: serverBase(this.#server.value) };
    return { kind: 'browser', backend, policy: this.#policy.value as PolicyName };
  }

  show(choice: SourceChoice): void {
    if (choice.kind === 'server') {
      this.#backend.value = 'server';
      this.#policy.value = defaultPolicy;
      this.#server.value = choice.address;
    } else {
      this.#backend.value = choice.backend;
      this.#policy.value = choice.policy;
    }
    this.#showFields();
    history.replaceState(null, '', addressWithChoice(location.href, choice));
  }

  focusKey(): void {
    this.#key.focus();
  }

  #showFields(): void {
    const isServer = this.#backend.value === 'server';
    element('policy-field', HTMLElement).hidden = isServer;
    for (const field of document.querySelectorAll<HTMLElement>('.server-field')) field.hidden = !isServer;
  }
}
