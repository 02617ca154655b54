import { element } from './element.js';

export interface Tab {
  readonly id: string;
  readonly title: string;
  readonly panelId: string;
  readonly isRunning: boolean;
  readonly tokenCount: number;
}

export interface TabActions {
  select(id: string): void;
  close(id: string): void;
}

/** The tabs of the chats, with what runs in each. Arrow keys, Home and End move; Delete closes. */
export class TabsView {
  readonly #list = element('tabs', HTMLElement);

  constructor(private readonly actions: TabActions) {
    this.#list.onkeydown = (event) => this.#onKey(event);
  }

  add({ id, title, panelId }: Tab): void {
    const tab = document.createElement('button');
    tab.type = 'button';
    tab.id = id;
    tab.role = 'tab';
    tab.setAttribute('aria-controls', panelId);
    tab.onclick = () => this.actions.select(id);
    const count = document.createElement('span');
    count.className = 'tab-count';
    tab.append(title, count);
    const close = document.createElement('button');
    close.type = 'button';
    close.className = 'tab-close';
    close.textContent = '×';
    close.ariaLabel = `Close ${title}`;
    close.tabIndex = -1;
    close.onclick = () => this.actions.close(id);
    const place = document.createElement('span');
    place.className = 'tab';
    place.role = 'presentation';
    place.append(tab, close);
    this.#list.append(place);
  }

  remove(id: string): void {
    element(id, HTMLElement).parentElement?.remove();
  }

  show({ id, isRunning, tokenCount }: Tab): void {
    const tab = element(id, HTMLElement);
    tab.dataset.running = String(isRunning);
    tab.querySelector('.tab-count')!.textContent = tokenCount > 0 ? ` · ${tokenCount}` : '';
  }

  select(id: string): void {
    for (const tab of this.#tabs()) {
      const isSelected = tab.id === id;
      tab.ariaSelected = String(isSelected);
      tab.tabIndex = isSelected ? 0 : -1;
    }
    this.#list.dataset.count = String(this.#tabs().length);
  }

  #tabs(): HTMLElement[] {
    return [...this.#list.querySelectorAll<HTMLElement>('[role="tab"]')];
  }

  #onKey(event: KeyboardEvent): void {
    const tabs = this.#tabs();
    const index = tabs.indexOf(event.target as HTMLElement);
    if (index < 0) return;
    if (event.key === 'Delete') {
      this.actions.close(tabs[index]!.id);
      return;
    }
    const to = nextIndex(event.key, index, tabs.length);
    if (to === undefined) return;
    event.preventDefault();
    this.actions.select(tabs[to]!.id);
    tabs[to]!.focus();
  }
}

function nextIndex(key: string, index: number, count: number): number | undefined {
  switch (key) {
    case 'ArrowRight':
      return (index + 1) % count;
    case 'ArrowLeft':
      return (index + count - 1) % count;
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return undefined;
  }
}
