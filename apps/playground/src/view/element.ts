import { assert } from '@stet/backend';

/** The element of index.html with this id. */
export function element<T extends HTMLElement>(id: string, type: abstract new () => T): T {
  const found = document.getElementById(id);
  assert(found instanceof type, `index.html has a ${type.name} with the id ${id}`);
  return found;
}

export function setText(id: string, text: string): void {
  element(id, HTMLElement).textContent = text;
}
