import { StetError } from '@stet/backend';
import { type BackendName, backendNames, type EngineChoice, type PolicyName, policyNames } from '../engine/messages.js';
import { element } from './element.js';

/** The choice of backend and policy, kept in the page's address so that it can be sent to others. */
export class EngineForm {
  readonly #backend = element('backend', HTMLSelectElement);
  readonly #policy = element('policy', HTMLSelectElement);

  constructor(onChange: (choice: EngineChoice) => void) {
    const changed = () => {
      const choice = { backend: this.#backend.value as BackendName, policy: this.#policy.value as PolicyName };
      this.show(choice);
      onChange(choice);
    };
    this.#backend.onchange = changed;
    this.#policy.onchange = changed;
  }

  show({ backend, policy }: EngineChoice): void {
    this.#backend.value = backend;
    this.#policy.value = policy;
    const url = new URL(location.href);
    url.searchParams.set('backend', backend);
    url.searchParams.set('policy', policy);
    history.replaceState(null, '', url);
  }
}

/** What the address asks for. Throws `STET_ERR_UNSUPPORTED` for a name that is not known. */
export function choiceFromAddress(search: string): EngineChoice {
  const parameters = new URLSearchParams(search);
  return {
    backend: oneOf('backend', backendNames, parameters.get('backend') ?? 'webgpu'),
    policy: oneOf('policy', policyNames, parameters.get('policy') ?? 'auto'),
  };
}

function oneOf<T extends string>(what: string, names: readonly T[], value: string): T {
  const name = names.find((one) => one === value);
  if (name !== undefined) return name;
  throw new StetError(
    'STET_ERR_UNSUPPORTED',
    `there is no ${what} ${JSON.stringify(value)}: choose ${names.join(' or ')}`,
  );
}
