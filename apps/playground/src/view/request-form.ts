import type { GenerateRequest } from '@stet/engine';
import { element } from './element.js';

/** What the form asks for; the seed is absent where one is to be drawn. */
export type FormRequest = Required<Pick<GenerateRequest, 'prompt' | 'maxTokens' | 'temperature' | 'deterministic'>> &
  Pick<GenerateRequest, 'seed'>;

/** `idle`: there is no engine to ask; `running`: an answer is on its way. */
export type FormState = 'idle' | 'ready' | 'running';

export interface FormActions {
  generate(request: FormRequest): void;
  stop(): void;
  twice(request: FormRequest): void;
}

/** The form of one request and its buttons. The browser checks the fields. */
export class RequestForm {
  readonly #form = element('request', HTMLFormElement);
  readonly #prompt = element('prompt', HTMLTextAreaElement);
  readonly #maxTokens = element('max-tokens', HTMLInputElement);
  readonly #temperature = element('temperature', HTMLInputElement);
  readonly #seed = element('seed', HTMLInputElement);
  readonly #deterministic = element('deterministic', HTMLInputElement);
  readonly #generate = element('generate', HTMLButtonElement);
  readonly #stop = element('stop', HTMLButtonElement);
  readonly #twice = element('twice', HTMLButtonElement);

  constructor(actions: FormActions) {
    this.#form.onsubmit = (event) => {
      event.preventDefault();
      // Enter submits even where the button is disabled.
      if (!this.#generate.disabled) actions.generate(this.#read());
    };
    this.#stop.onclick = () => actions.stop();
    this.#twice.onclick = () => {
      if (this.#form.reportValidity()) actions.twice(this.#read());
    };
    this.#prompt.onkeydown = (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.#form.requestSubmit();
    };
  }

  set state(state: FormState) {
    this.#generate.disabled = state !== 'ready';
    this.#twice.disabled = state !== 'ready';
    // A button that has the focus takes it along when it is disabled.
    const hadFocus = document.activeElement === this.#stop;
    this.#stop.disabled = state !== 'running';
    if (hadFocus && state === 'ready') this.#generate.focus();
  }

  #read(): FormRequest {
    return {
      prompt: this.#prompt.value,
      maxTokens: this.#maxTokens.valueAsNumber,
      temperature: this.#temperature.valueAsNumber,
      deterministic: this.#deterministic.checked,
      ...(this.#seed.value !== '' && { seed: this.#seed.valueAsNumber }),
    };
  }
}
