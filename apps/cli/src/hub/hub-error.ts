import { StetError } from '@stet/backend';

/** A failure that may pass: the network, a busy server. The caller may try again. */
export class PassingFailure extends Error {
  override readonly name = 'PassingFailure';
  /** What the server asked for, if it did. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { cause?: unknown; retryAfterMs?: number } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
  }
}

export function downloadError(message: string, cause?: unknown): StetError {
  return new StetError('STET_ERR_DOWNLOAD', message, cause === undefined ? {} : { cause });
}

/** Throws `STET_ERR_ABORTED` when the caller gave up. */
export function throwIfStopped(signal: AbortSignal): void {
  if (signal.aborted)
    throw new StetError('STET_ERR_ABORTED', 'the download was stopped; the next one goes on from here', {
      cause: signal.reason,
    });
}

/** What an error of fetch says, whose own message is only `fetch failed`. */
export function networkMessage(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  if (!(cause instanceof Error)) return message;
  const { code } = cause as NodeJS.ErrnoException;
  return cause.message || code || message;
}
