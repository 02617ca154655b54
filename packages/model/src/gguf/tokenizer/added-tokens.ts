import { badTokenizer } from './bad-tokenizer.js';
import { isAdded, type Vocabulary } from './vocabulary.js';

/** A part of a text: an added token, or what stands between two. */
export type TextPart =
  | { readonly kind: 'token'; readonly id: number }
  | { readonly kind: 'text'; readonly text: string };

/** Characters of all added tokens together, each of which may take a node; the known models stay under 100,000. */
const MAX_ADDED_LENGTH = 2 ** 18;

/** A search looks as far ahead at every character of a text. */
const MAX_ADDED_TOKEN_LENGTH = 256;

interface Node {
  readonly next: Map<number, Node>;
  id?: number;
}

/**
 * Finds added tokens in a text: from left to right, the longest where several begin, as the tokenizers library does.
 * `trailingSpace`: white space after such a token belongs to it.
 */
export function addedTokenSplitter(
  { tokens, kinds }: Vocabulary,
  trailingSpace: (id: number) => 'keep' | 'strip',
): (text: string) => TextPart[] {
  const root: Node = { next: new Map() };
  let length = 0;
  for (const [id, token] of tokens.entries()) {
    if (token === '' || !isAdded(kinds[id]!)) continue;
    if (token.length > MAX_ADDED_TOKEN_LENGTH)
      badTokenizer(`has a special token of ${token.length} characters (id ${id})`);
    length += token.length;
    if (length > MAX_ADDED_LENGTH) badTokenizer(`has special tokens of more than ${MAX_ADDED_LENGTH} characters`);
    insert(root, token, id);
  }
  return (text) => {
    const parts: TextPart[] = [];
    let done = 0;
    const pushText = (end: number): void => {
      if (end > done) parts.push({ kind: 'text', text: text.slice(done, end) });
    };
    for (let at = 0; at < text.length; ) {
      const found = longestAt(root, text, at);
      if (!found) {
        at++;
        continue;
      }
      pushText(at);
      parts.push({ kind: 'token', id: found.id });
      at = found.end;
      if (trailingSpace(found.id) === 'strip') while (isSpace(text, at)) at++;
      done = at;
    }
    pushText(text.length);
    return parts;
  };
}

function insert(root: Node, token: string, id: number): void {
  let node = root;
  for (let i = 0; i < token.length; i++) {
    const unit = token.charCodeAt(i);
    let child = node.next.get(unit);
    if (!child) {
      child = { next: new Map() };
      node.next.set(unit, child);
    }
    node = child;
  }
  node.id = id;
}

function longestAt(root: Node, text: string, start: number): { id: number; end: number } | undefined {
  let found: { id: number; end: number } | undefined;
  let node: Node | undefined = root;
  for (let at = start; at < text.length; at++) {
    node = node.next.get(text.charCodeAt(at));
    if (!node) break;
    if (node.id !== undefined) found = { id: node.id, end: at + 1 };
  }
  return found;
}

function isSpace(text: string, at: number): boolean {
  return at < text.length && /\p{White_Space}/u.test(text[at]!);
}
