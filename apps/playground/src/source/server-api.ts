import { errorCodes, isStetError, StetError, type StetErrorCode } from '@stet/backend';
import type { SourceInfo } from './answer-source.js';

/** How long a server may take to say what it is. */
const TIMEOUT_MS = 10_000;

/** What `/ready` says of the server at `base`. Rejects with a `StetError`: also with what the server gives as the reason. */
export async function askReady(base: string, signal: AbortSignal): Promise<SourceInfo> {
  const answer = await ask(new URL('ready', base), {}, signal);
  const { status, model, backend, fingerprint, guarantee, contextLength, chatTemplate } = answer;
  const isInfo =
    status === 'ready' &&
    [model, backend, fingerprint, guarantee].every((value) => typeof value === 'string') &&
    typeof contextLength === 'number';
  if (!isInfo) throw noServer(base);
  return {
    model: model as string,
    backend: backend as string,
    fingerprint: fingerprint as string,
    guarantee: guarantee as SourceInfo['guarantee'],
    contextLength,
    chatTemplate: chatTemplate === 'present' ? 'present' : 'none',
  };
}

/** A ticket for one connection. Rejects with `STET_ERR_UNAUTHORIZED` for a key that the server does not have. */
export async function askTicket(base: string, key: string, signal: AbortSignal): Promise<string> {
  const headers = { Authorization: `Bearer ${key}` };
  const { ticket } = await ask(new URL('v1/tickets', base), { method: 'POST', headers }, signal);
  if (typeof ticket !== 'string') throw noServer(base);
  return ticket;
}

/**
 * A browser does not tell why a socket was refused, so it is asked before. Rejects with `STET_ERR_UNAUTHORIZED` where the
 * server wants a key.
 */
export async function checkOpenDoor(base: string, signal: AbortSignal): Promise<void> {
  try {
    await ask(new URL('v1/models', base), {}, signal);
  } catch (error) {
    // A server of the native protocol alone has no list of models.
    if (!(isStetError(error) && error.code === 'STET_ERR_NOT_FOUND')) throw error;
  }
}

/** Whether a Stet server answers at `base`, be it ready or not. */
export async function isServer(base: string, signal: AbortSignal): Promise<boolean> {
  try {
    const response = await fetch(new URL('ready', base), { cache: 'no-store', signal });
    const body: unknown = await response.json();
    return fieldOf(body, 'status') === 'ready' || isKnownCode(fieldOf(fieldOf(body, 'error'), 'code'));
  } catch {
    // Whatever else serves this page has no such path, or has a page there.
    return false;
  }
}

async function ask(url: URL, init: RequestInit, signal: AbortSignal): Promise<Record<string, unknown>> {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(url, { ...init, cache: 'no-store', signal: AbortSignal.any([signal, limit]) });
    body = await response.json();
  } catch (cause) {
    if (signal.aborted) throw new StetError('STET_ERR_ABORTED', 'aborted by the user', { cause });
    if (cause instanceof SyntaxError) throw noServer(url.origin, cause);
    const why = limit.aborted
      ? `did not answer within ${TIMEOUT_MS / 1000} s`
      : 'cannot be reached, or takes no page of';
    const origin = limit.aborted ? '' : ` ${location.origin}`;
    throw new StetError('STET_ERR_CONNECTION', `${url.origin} ${why}${origin}`, { cause });
  }
  if (response.ok && typeof body === 'object' && body !== null) return body as Record<string, unknown>;
  const error = fieldOf(body, 'error');
  const [code, message] = [fieldOf(error, 'code'), fieldOf(error, 'message')];
  if (!isKnownCode(code)) throw noServer(url.origin);
  throw new StetError(code, withoutHint(String(message), code));
}

/** Over HTTP a message ends in its hint, which the page shows beside it. */
function withoutHint(message: string, code: StetErrorCode): string {
  return message.replace(`. ${errorCodes[code]}`, '');
}

function noServer(base: string, cause?: unknown): StetError {
  return new StetError('STET_ERR_CONNECTION', `no Stet server answers at ${base}`, { cause });
}

function isKnownCode(code: unknown): code is StetErrorCode {
  return typeof code === 'string' && Object.hasOwn(errorCodes, code);
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
