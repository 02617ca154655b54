import { errorCodes, StetError, type StetErrorCode } from '@stet/backend';
import type { ErrorFrame } from '@stet/server/protocol';

/** What ends a stream or a connection: a `StetError` with the server's code, and whether sending again may help. */
export class StreamError extends StetError {
  readonly retryable: boolean;

  constructor(code: StetErrorCode, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(code, message, 'cause' in options ? { cause: options.cause } : undefined);
    this.retryable = options.retryable;
  }
}

/** A newer server may have codes that this client does not know; then the message names them. */
export function errorOfFrame({ code, message, retryable }: ErrorFrame): StreamError {
  return isKnown(code)
    ? new StreamError(code, message, { retryable })
    : new StreamError('STET_ERR_UNSUPPORTED', `the server answered ${code}: ${message}`, { retryable });
}

/** The server gives its code as the reason of a close frame; a connection that just broke has none. */
export function errorOfClose(code: number, reason: string): StreamError {
  const detail = reason === '' || isKnown(reason) ? `code ${code}` : `code ${code}, ${reason}`;
  if (code === 1009)
    return new StreamError('STET_ERR_BAD_FRAME', `the server refused a frame as too large (${detail})`, {
      retryable: false,
    });
  return new StreamError(isKnown(reason) ? reason : 'STET_ERR_CONNECTION', `the connection was closed (${detail})`, {
    retryable: code !== 4400 && reason !== 'STET_ERR_UNAUTHORIZED',
  });
}

/** The server broke the protocol. */
export function badFrame(message: string, { retryable = false } = {}): StreamError {
  return new StreamError('STET_ERR_BAD_FRAME', message, { retryable });
}

export function aborted(cause?: unknown): StreamError {
  return new StreamError('STET_ERR_ABORTED', 'the request was aborted by its caller', { retryable: false, cause });
}

function isKnown(code: string): code is StetErrorCode {
  return Object.hasOwn(errorCodes, code);
}
