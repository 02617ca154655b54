import { assert } from '@stet/backend';

type ElementType<T extends HTMLElement> = abstract new () => T;

/** The element of index.html with this id. */
export function element<T extends HTMLElement>(id: string, type: ElementType<T>): T {
  const found = document.getElementById(id);
  assert(found instanceof type, `index.html has a ${type.name} with the id ${id}`);
  return found;
}

/** The element with this `data-part` below `root`. */
export function part<T extends HTMLElement>(root: ParentNode, name: string, type: ElementType<T>): T {
  const found = root.querySelector(`[data-part="${name}"]`);
  assert(found instanceof type, `index.html has a ${type.name} with the part ${name}`);
  return found;
}

export function setText(id: string, text: string): void {
  element(id, HTMLElement).textContent = text;
}
