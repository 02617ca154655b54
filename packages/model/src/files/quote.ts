const MAX_QUOTED = 100;

/** A value from a file, for a message: as JSON and cut, so that a hostile one cannot flood a log or break its lines. */
export function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
}

/** The message of an error that a library raised, which may quote the file as well. */
export function causeMessage(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : String(cause);
  return text.length > 2 * MAX_QUOTED ? `${text.slice(0, 2 * MAX_QUOTED)}…` : text;
}
