import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { errorCodes } from '../src/index.js';

describe('docs/ERRORS.md', () => {
  const page = readFileSync(new URL('../../../docs/ERRORS.md', import.meta.url), 'utf8');

  it.each(Object.entries(errorCodes))('lists %s with its hint', (code, hint) => {
    expect(page).toContain(`| \`${code}\` | ${hint} |`);
  });

  it('lists nothing else', () => {
    expect(page.match(/\| `STET_ERR_/g)).toHaveLength(Object.keys(errorCodes).length);
  });
});
