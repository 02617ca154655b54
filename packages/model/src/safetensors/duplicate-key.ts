/**
 * The first key that an object of a JSON text has twice, or undefined. `JSON.parse` keeps the last one silently, so two
 * readers of the same file could see two different tensors. `text` must have been parsed without error.
 */
export function duplicateKey(text: string): string | undefined {
  // Keys seen of each open object; undefined for an open array.
  const open: (Set<string> | undefined)[] = [];
  let expectsKey = false;
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '{':
        open.push(new Set());
        expectsKey = true;
        break;
      case '[':
        open.push(undefined);
        expectsKey = false;
        break;
      case '}':
      case ']':
        open.pop();
        expectsKey = false;
        break;
      case ',':
        expectsKey = open.at(-1) !== undefined;
        break;
      case '"': {
        const end = closingQuote(text, i);
        const keys = open.at(-1);
        if (expectsKey && keys) {
          const key: string = JSON.parse(text.slice(i, end + 1));
          if (keys.has(key)) return key;
          keys.add(key);
          expectsKey = false;
        }
        i = end;
        break;
      }
    }
  }
  return undefined;
}

function closingQuote(text: string, start: number): number {
  let i = start + 1;
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1;
  return i;
}
