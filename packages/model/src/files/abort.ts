import { StetError } from '@stet/backend';

/** Throws `STET_ERR_ABORTED` when the caller gave up; called between reads. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted)
    throw new StetError('STET_ERR_ABORTED', 'loading the model was aborted', { cause: signal.reason });
}
