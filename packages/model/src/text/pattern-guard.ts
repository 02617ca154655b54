import { StetError } from '@stet/backend';
import { quote } from '../files/quote.js';
import { gpt2Pattern, knownPatterns } from './known-patterns.js';

/** Steps of a normalizer or a pre-tokenizer, and how deep they are nested. */
const MAX_STEPS = 64;
const MAX_DEPTH = 16;
/** How many times as long all replacements together may make a text. */
const MAX_GROWTH = 16;

/**
 * The steps of a normalizer or a pre-tokenizer of tokenizer.json, with patterns that are safe to run; throws
 * `STET_ERR_BAD_TOKENIZER` for others.
 *
 * A file's patterns are run by JavaScript's backtracking engine on every prompt, and a bad one, such as `(a+)+$`, never
 * ends: the file would hang the server. No limit on time can be set on a pattern, and whether a pattern is safe is hard
 * to tell by its looks (`\s*\s*x` has no nested quantifier). So a pattern is run only when it is one of the models
 * that people run (known-patterns.ts), or so simple that it cannot backtrack: alternatives that are characters and
 * classes in a row, of which the last one may repeat. Such a pattern looks at every character of a text a bounded
 * number of times.
 */
export function guardPatterns(steps: unknown): unknown {
  const budget = { steps: 0, growth: 1 };
  return guarded(steps, budget, 0);
}

function guarded(value: unknown, budget: { steps: number; growth: number }, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) bad('is nested too deeply');
  if (Array.isArray(value)) {
    budget.steps += value.length;
    if (budget.steps > MAX_STEPS) bad(`has more than ${MAX_STEPS} steps of normalizing or cutting text`);
    return value.map((inner) => guarded(inner, budget, depth + 1));
  }
  const entries = Object.entries(value);
  const copy = Object.fromEntries(
    entries.map(([key, inner]) => [key, key === 'pattern' ? guardedPattern(inner) : guarded(inner, budget, depth + 1)]),
  );
  budget.growth *= growthOf(copy);
  if (budget.growth > MAX_GROWTH) bad(`has replacements that make a text more than ${MAX_GROWTH} times as long`);
  return withUnicode(copy);
}

/**
 * Steps with patterns of their own, as steps with a pattern from a file: there the library has the white space and the
 * digits of Unicode, as the Rust library has them everywhere. In its own patterns it has JavaScript's white space, with
 * U+FEFF and without U+0085, and only ASCII's digits.
 */
function withUnicode(step: Readonly<Record<string, unknown>>): unknown {
  const split = (Regex: string) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false });
  if (step.type === 'Digits') return split(step.individual_digits === true ? String.raw`\p{N}` : String.raw`\p{N}+`);
  const cuts = step.type === 'ByteLevel' && step.use_regex !== false && step.add_prefix_space !== true;
  return cuts ? { type: 'Sequence', pretokenizers: [split(gpt2Pattern), { ...step, use_regex: false }] } : step;
}

function guardedPattern(pattern: unknown): { String: string } | { Regex: string } {
  const { String: text, Regex: source } = (pattern ?? {}) as { String?: unknown; Regex?: unknown };
  // The library skips a step whose pattern it does not know; texts would be cut in other places.
  if (typeof text === 'string' && source === undefined) return { String: text };
  if (typeof source !== 'string' || text !== undefined)
    return bad(`has a pattern that is not supported: ${quote(pattern)}`);
  const known = knownPatterns().get(source);
  if (known !== undefined) return { Regex: known };
  if (!cannotBacktrack(source))
    bad(`has a pattern that might never end, and that no known model has: ${quote(source)}`);
  return { Regex: source };
}

/** Characters that a replacement makes of one; a prefix counts as a doubling of the shortest text. */
function growthOf(step: Readonly<Record<string, unknown>>): number {
  if (typeof step.prepend === 'string') return Math.max(1, step.prepend.length);
  if (step.type !== 'Replace' || typeof step.content !== 'string') return 1;
  const pattern = step.pattern as { String?: string } | undefined;
  return Math.max(1, step.content.length / Math.max(1, pattern?.String?.length ?? 1));
}

const MAX_PATTERN_LENGTH = 1024;
const MAX_ALTERNATIVES = 32;
const MAX_OPTIONAL = 2;
const MAX_REPEATS = 1024;
/**
 * A class without classes inside; a property; an escaped character or class; a plain character. No two ways to read a
 * pattern: this pattern is run on hostile ones.
 */
const atom = String.raw`\[\^?(?:\\[pP]\{\w+\}|\\[^pP]|[^\]\[\\&]|&(?!&))+\]|\\[pP]\{\w+\}|\\[sSdDwWrntfv]|\\[^\w]|[^\\\[\]{}()|*+?^$.]`;
const sequence = new RegExp(String.raw`^(?:(?:${atom})\??)*(?:${atom})(?:[+*]|\{\d+(?:,\d*)?\})?$`, 'u');

function cannotBacktrack(source: string): boolean {
  if (source.length > MAX_PATTERN_LENGTH) return false;
  const alternatives = splitAlternatives(source);
  return (
    alternatives.length <= MAX_ALTERNATIVES &&
    alternatives.every(
      (alternative) =>
        sequence.test(alternative) &&
        count(alternative, /\?/g) <= MAX_OPTIONAL &&
        [...alternative.matchAll(/\{(\d+)(?:,(\d*))?\}$/g)].every((found) =>
          found.slice(1).every((limit) => Number(limit ?? 0) <= MAX_REPEATS),
        ),
    )
  );
}

/** At every bar that is neither escaped nor in a class. */
function splitAlternatives(source: string): string[] {
  const alternatives: string[] = [''];
  let inside: 'class' | 'none' = 'none';
  for (let i = 0; i < source.length; i++) {
    const unit = source[i]!;
    if (unit === '|' && inside === 'none') {
      alternatives.push('');
      continue;
    }
    const taken = unit === '\\' ? source.slice(i, ++i + 1) : unit;
    if (taken === '[') inside = 'class';
    else if (taken === ']') inside = 'none';
    alternatives[alternatives.length - 1] += taken;
  }
  return alternatives;
}

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

function bad(what: string): never {
  throw new StetError('STET_ERR_BAD_TOKENIZER', `tokenizer.json ${what}`);
}
