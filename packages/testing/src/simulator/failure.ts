/** A rule that a run broke. What a simulation reports names the seed, the step and, where there is one, the request. */
export class Violation extends Error {
  override readonly name = 'Violation';
  readonly requestId: string | undefined;

  constructor(message: string, requestId?: string) {
    super(message);
    this.requestId = requestId;
  }
}

/** Throws a {@link Violation} unless the condition holds. */
export function must(condition: unknown, message: string, requestId?: string): asserts condition {
  if (!condition) throw new Violation(message, requestId);
}
