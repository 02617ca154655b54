const MAX_QUOTED = 100;

/** A value from a file, for a message: as JSON and cut, so that a hostile one cannot flood a log or break its lines. */
export function quote(value: unknown): string {
  // A list may have millions of entries, of which the first fill the message.
  const shown = isList(value) ? Array.from({ length: Math.min(value.length, MAX_QUOTED) }, (_, i) => value[i]) : value;
  const bigintsAsText = (_key: string, entry: unknown): unknown => (typeof entry === 'bigint' ? String(entry) : entry);
  const text = typeof value === 'bigint' ? String(value) : (JSON.stringify(shown, bigintsAsText) ?? String(value));
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
}

/** The message of an error that a library raised, which may quote the file as well. */
export function causeMessage(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : String(cause);
  return text.length > 2 * MAX_QUOTED ? `${text.slice(0, 2 * MAX_QUOTED)}…` : text;
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && 'length' in value);
}
