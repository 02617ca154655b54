import { assert } from '@stet/backend';

/**
 * The lines of a WGSL text that a variant has: those between `//#if FLAG` and its `//#else` or `//#endif` where the flag is among
 * `flags`, those between `//#else` and `//#endif` where it is not, and all others. They may be nested.
 */
export function variantText(text: string, flags: ReadonlySet<string>): string {
  /** Of each open `//#if`, whether the lines within are kept. */
  const kept: boolean[] = [];
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    const [, word, flag] = /^\/\/#(\w+)\s*(\w*)$/.exec(line.trim()) ?? [];
    switch (word) {
      case undefined:
        if (kept.every((isKept) => isKept)) lines.push(line);
        break;
      case 'if':
        kept.push(flags.has(flag!));
        break;
      case 'else':
        assert(kept.length > 0, '#else without #if');
        kept.push(!kept.pop());
        break;
      case 'endif':
        assert(kept.pop() !== undefined, '#endif without #if');
        break;
      default:
        assert(false, `the line ${line} is not understood`);
    }
  }
  assert(kept.length === 0, '#if without #endif');
  return lines.join('\n');
}
