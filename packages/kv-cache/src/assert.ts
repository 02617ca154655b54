/** A check of our own reasoning, kept in production. This package imports nothing, so it has its own. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}
