import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const sixLines = (text: string) => /```js\n(import WebSocket.*?)```/s.exec(text)?.[1];

it('the README shows the six lines that the protocol page shows, which are tested', () => {
  expect(sixLines(read('README.md'))).toBeDefined();
  expect(sixLines(read('README.md'))).toBe(sixLines(read('docs/PROTOCOL.md')));
});
