import { assert } from '@stet/backend';

/** Tokens that two answers to one request share from its beginning. `cut`: they are equal as far as they go. */
export type Span = { readonly tokens: number; readonly end: 'difference' | 'cut' };

/** Equal tokens before the first difference of two answers of one length. */
export function firstSpan(one: readonly number[], other: readonly number[]): Span {
  assert(one.length === other.length, `answers of ${one.length} and ${other.length} tokens are compared`);
  const at = one.findIndex((token, i) => token !== other[i]);
  return at < 0 ? { tokens: one.length, end: 'cut' } : { tokens: at, end: 'difference' };
}

/** From a first difference to the next one, in tokens: 1 where the very next token differs too; null where none follows. */
export function nextDifference(one: readonly number[], other: readonly number[], first: number): number | null {
  const rest = firstSpan(one.slice(first + 1), other.slice(first + 1));
  return rest.end === 'difference' ? rest.tokens + 1 : null;
}

/** The span that `quantile` of all do not exceed, by nearest rank; undefined where that one was cut, so that nobody knows. */
export function spanQuantile(spans: readonly Span[], quantile: number): number | undefined {
  assert(spans.length > 0, 'a quantile of no spans');
  const ends = spans
    .map(({ tokens, end }) => (end === 'difference' ? tokens : Number.POSITIVE_INFINITY))
    .sort((a, b) => (a < b ? -1 : Number(a > b)));
  const value = ends[Math.max(1, Math.ceil(quantile * ends.length)) - 1]!;
  return Number.isFinite(value) ? value : undefined;
}

export function shareCut(spans: readonly Span[]): number {
  return spans.filter(({ end }) => end === 'cut').length / spans.length;
}

/** Differences in a thousand tokens of which all before were equal. */
export function differencesPerThousand(spans: readonly Span[]): number {
  const differences = spans.filter(({ end }) => end === 'difference').length;
  const tokens = spans.reduce((sum, span) => sum + span.tokens, differences);
  return tokens === 0 ? 0 : (1000 * differences) / tokens;
}

/** Share of the spans that have ended after so many tokens, as the corners of its steps, from 0 to the longest. */
export function endedShares(spans: readonly Span[]): { readonly tokens: number; readonly share: number }[] {
  const ends = spans
    .filter(({ end }) => end === 'difference')
    .map(({ tokens }) => tokens)
    .sort((a, b) => a - b);
  const longest = Math.max(...spans.map(({ tokens }) => tokens));
  const corners = [...new Set([0, ...ends, longest])].sort((a, b) => a - b);
  return corners.map((tokens) => ({ tokens, share: ends.filter((end) => end <= tokens).length / spans.length }));
}
