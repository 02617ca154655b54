import type { StetError, StetErrorCode } from '@stet/backend';
import type { ErrorFrame } from './server-frames.js';

/** Codes after which the same request may succeed later, unchanged. */
export const retryableCodes: ReadonlySet<StetErrorCode> = new Set<StetErrorCode>([
  'STET_ERR_BACKEND_FAILED',
  'STET_ERR_CONNECTION',
  'STET_ERR_DEVICE_LOST',
  'STET_ERR_ENGINE_CLOSED',
  'STET_ERR_QUEUE_FULL',
  'STET_ERR_RATE_LIMITED',
  'STET_ERR_SHUTTING_DOWN',
  'STET_ERR_SLOW_READER',
  'STET_ERR_TOO_MANY_SOCKETS',
  'STET_ERR_TOO_MANY_STREAMS',
]);

/** Which frame or stream an error frame speaks of; see {@link ErrorFrame}. */
export interface ErrorSubject {
  readonly id?: string;
  readonly seq?: number;
}

export function errorFrame(subject: ErrorSubject, error: StetError): ErrorFrame {
  return {
    type: 'error',
    ...subject,
    code: error.code,
    message: error.message,
    retryable: retryableCodes.has(error.code),
    hint: error.hint,
  };
}
