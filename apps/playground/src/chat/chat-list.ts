import type { AnswerSource } from '../source/answer-source.js';
import { element } from '../view/element.js';
import type { FiguresView } from '../view/figures-view.js';
import { type Tab, TabsView } from '../view/tabs-view.js';
import { Chat, type ChatHooks } from './chat.js';

/** A bound on what one page may ask at once. */
const MAX_CHATS = 16;

/** Each chat begins another story, so that several are soon started. */
const PROMPTS = [
  'Once upon a time, there was a little girl named Lily',
  'One day, a little boy named Tim',
  'The king of the small island was sad, because',
  'A bear and a fox went into the woods',
] as const;

/** The chats of the page; all stream at once over the same source, and one is in view. */
export class ChatList {
  readonly #chats: Chat[] = [];
  readonly #panels = element('panels', HTMLElement);
  readonly #newChat = element('new-chat', HTMLButtonElement);
  readonly #tabs = new TabsView({ select: (id) => this.#select(id), close: (id) => this.#close(id) });
  #source: AnswerSource | undefined;
  #selected: Chat | undefined;
  #isComparing = false;
  #madeCount = 0;

  constructor(
    private readonly hooks: Omit<ChatHooks, 'onChange'>,
    private readonly figures: FiguresView,
  ) {
    this.#newChat.onclick = () => this.#add();
    this.#add();
  }

  set source(source: AnswerSource | undefined) {
    this.#source = source;
    for (const chat of this.#chats) chat.source = source;
  }

  set isComparing(isComparing: boolean) {
    this.#isComparing = isComparing;
    for (const chat of this.#chats) chat.isComparing = isComparing;
  }

  set status(text: string) {
    for (const chat of this.#chats) chat.status = text;
  }

  #add(): void {
    const number = ++this.#madeCount;
    const prompt = PROMPTS[(number - 1) % PROMPTS.length]!;
    const chat = new Chat({ number, prompt, hooks: { ...this.hooks, onChange: (changed) => this.#onChange(changed) } });
    this.#chats.push(chat);
    this.#panels.append(chat.panel.root);
    this.#tabs.add(tabOf(chat));
    chat.source = this.#source;
    chat.isComparing = this.#isComparing;
    this.#select(chat.tabId);
  }

  /** The last one stays. */
  #close(id: string): void {
    const index = this.#chats.findIndex(({ tabId }) => tabId === id);
    const chat = this.#chats[index];
    if (!chat || this.#chats.length === 1) return;
    const hadFocus = document.activeElement?.id === id;
    this.#chats.splice(index, 1);
    // It stops by itself, and shows nothing more.
    chat.source = undefined;
    chat.panel.root.remove();
    this.#tabs.remove(id);
    const next = this.#selected === chat ? this.#chats[Math.min(index, this.#chats.length - 1)]! : this.#selected!;
    this.#select(next.tabId);
    if (hadFocus) element(next.tabId, HTMLElement).focus();
  }

  #select(id: string): void {
    const chat = this.#chats.find(({ tabId }) => tabId === id);
    if (!chat) return;
    this.#selected = chat;
    for (const one of this.#chats) one.panel.root.hidden = one !== chat;
    this.#tabs.select(id);
    this.#newChat.disabled = this.#chats.length === MAX_CHATS;
    this.figures.show(chat.figures);
  }

  #onChange(chat: Chat): void {
    if (!this.#chats.includes(chat)) return;
    this.#tabs.show(tabOf(chat));
    if (chat === this.#selected) this.figures.show(chat.figures);
  }
}

function tabOf({ tabId, title, panel, isRunning, figures }: Chat): Tab {
  return { id: tabId, title, panelId: panel.root.id, isRunning, tokenCount: figures.reading.tokenCount };
}
