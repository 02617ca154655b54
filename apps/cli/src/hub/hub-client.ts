import { StetError } from '@stet/backend';
import { downloadError, networkMessage, PassingFailure, throwIfStopped } from './hub-error.js';
import { defaultRetryLimits, type RetryLimits, withRetries } from './retry.js';

export interface HubClientOptions {
  /** `https://huggingface.co` by default. */
  readonly endpoint?: string;
  readonly token?: string;
  readonly signal: AbortSignal;
  readonly retry?: RetryLimits;
  /** A request that gets no byte for so long has failed; 30 s by default. */
  readonly stallMs?: number;
}

const HUB = 'https://huggingface.co';
const STALL_MS = 30_000;
/** Largest answer of the API. */
const MAX_API_BYTES = 64 * 2 ** 20;
/** Most of an error's body that is read, and most of it that is shown. */
const MAX_ERROR_BYTES = 64 * 2 ** 10;
const MAX_REASON_LENGTH = 300;

/**
 * Requests to the hub. The token goes to the hub's own origin alone: fetch drops it where the hub redirects to another,
 * and it is in no message.
 */
export class HubClient {
  readonly endpoint: string;
  readonly signal: AbortSignal;
  readonly retry: RetryLimits;
  readonly stallMs: number;
  readonly #token: string | undefined;

  constructor(options: HubClientOptions) {
    const { endpoint = HUB, token, signal, retry = defaultRetryLimits, stallMs = STALL_MS } = options;
    this.endpoint = checkEndpoint(endpoint);
    this.#token = checkToken(token);
    this.signal = signal;
    this.retry = retry;
    this.stallMs = stallMs;
  }

  /** `fetch` for the API: tries again, refuses large answers and other origins, and has errors of ours in place of statuses. */
  readonly fetchApi: typeof fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.origin !== new URL(this.endpoint).origin) {
      throw downloadError(`${this.endpoint} points to ${url.origin} in its list of files, which is refused`);
    }
    return withRetries(
      async () => {
        const stall = new StallTimer(this.stallMs, this.signal);
        try {
          const response = await this.#send(url, { ...init, signal: stall.signal });
          const body = await readBody(response, MAX_API_BYTES, url, stall);
          return new Response(body, { status: response.status, headers: response.headers });
        } catch (error) {
          throw this.#failure(error, url);
        } finally {
          stall.stop();
        }
      },
      { limits: this.retry, signal: this.signal },
    );
  };

  /** A file's answer, status 200 or 206; the caller reads the body, and starts `stall` again at every piece of it. */
  async openFile(url: URL, offset: number, stall: StallTimer): Promise<Response> {
    // Without this a server may send a compressed body, whose length and ranges are not those of the file.
    const headers = { 'Accept-Encoding': 'identity', ...(offset > 0 && { Range: `bytes=${offset}-` }) };
    try {
      return await this.#send(url, { headers, signal: stall.signal });
    } catch (error) {
      throw this.#failure(error, url);
    }
  }

  /** An error of fetch or of a body as one of ours: stopped, or passing. */
  #failure(error: unknown, url: URL): Error {
    throwIfStopped(this.signal);
    if (error instanceof StetError || error instanceof PassingFailure) return error;
    if (error instanceof Error && error.name === 'TimeoutError') {
      return new PassingFailure(`${url.host} sent nothing for ${this.stallMs / 1000} s`, { cause: error });
    }
    return new PassingFailure(`cannot read from ${url.host}: ${networkMessage(error)}`, { cause: error });
  }

  async #send(url: URL, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token !== undefined) headers.set('Authorization', `Bearer ${this.#token}`);
    const response = await fetch(url, { ...init, headers });
    if (response.ok) return response;
    throw await statusError(response, url, this.#token !== undefined);
  }
}

/** Aborts a request when nothing comes for a while, or when the caller gives up. */
export class StallTimer {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #stallMs: number;
  #timer: NodeJS.Timeout;

  constructor(stallMs: number, signal: AbortSignal) {
    this.#stallMs = stallMs;
    this.signal = AbortSignal.any([signal, this.#controller.signal]);
    this.#timer = this.#start();
  }

  restart(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #start(): NodeJS.Timeout {
    return setTimeout(() => this.#controller.abort(new DOMException('stalled', 'TimeoutError')), this.#stallMs);
  }
}

/** The body of an answer as it comes; leaving the loop ends the request. */
export async function* bodyPieces({ body }: Response): AsyncGenerator<Uint8Array, void, undefined> {
  if (!body) return;
  const reader = body.getReader();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
  } finally {
    // A body that has failed or has been aborted cannot be cancelled any more.
    await reader.cancel().catch(() => {});
  }
}

async function statusError(response: Response, url: URL, hasToken: boolean): Promise<Error> {
  const { status } = response;
  const said = await reasonOf(response);
  // The path alone: what a redirect adds to it may be a signature.
  const what = `${url.origin}${url.pathname}`;
  switch (status) {
    case 401:
      return downloadError(
        hasToken
          ? `the hub refuses the token for ${what}${said}`
          : `${what} does not exist, or needs a token: set HF_TOKEN, or name its variable with --token-env${said}`,
      );
    case 403:
      return downloadError(`the hub forbids ${what}; its page may ask you to accept its terms first${said}`);
    case 404:
      return downloadError(`the hub has no ${what}${said}`);
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: {
      const retryAfterMs = retryAfter(response.headers.get('Retry-After'));
      const options = retryAfterMs === undefined ? {} : { retryAfterMs };
      return new PassingFailure(`${url.host} answered with status ${status}${said}`, options);
    }
    default:
      return downloadError(`${what} answered with status ${status}${said}`);
  }
}

/** What the hub says about its refusal, for a message: one line, cut. */
async function reasonOf(response: Response): Promise<string> {
  const header = response.headers.get('X-Error-Message');
  const body = header === null ? await errorBody(response) : '';
  const reason = (header ?? body).replace(/\s+/g, ' ').trim().slice(0, MAX_REASON_LENGTH);
  return reason === '' ? '' : ` (${reason})`;
}

async function errorBody(response: Response): Promise<string> {
  const isJson = response.headers.get('Content-Type')?.startsWith('application/json') ?? false;
  const length = Number(response.headers.get('Content-Length') ?? Number.NaN);
  if (!isJson || !(length <= MAX_ERROR_BYTES)) {
    await response.body?.cancel();
    return '';
  }
  const value: unknown = await response.json().catch(() => undefined);
  const error = typeof value === 'object' && value !== null && 'error' in value ? value.error : undefined;
  return typeof error === 'string' ? error : '';
}

async function readBody(response: Response, maxBytes: number, url: URL, stall: StallTimer): Promise<ArrayBuffer> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of bodyPieces(response)) {
    stall.restart();
    size += piece.length;
    if (size > maxBytes) throw downloadError(`the answer of ${url.origin}${url.pathname} is over ${maxBytes} bytes`);
    pieces.push(piece);
  }
  return new Blob(pieces as BlobPart[]).arrayBuffer();
}

/** Milliseconds of a Retry-After header, in either of its forms. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : undefined;
}

function checkEndpoint(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isPlain = url && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (!isPlain || url.search !== '' || url.hash !== '') {
    throw downloadError('HF_ENDPOINT must be an http or https address without user, query or fragment');
  }
  return url.href.replace(/\/+$/, '');
}

/** Fetch would quote a token with a line break in its message. */
function checkToken(token: string | undefined): string | undefined {
  const trimmed = token?.trim();
  if (trimmed === undefined || trimmed === '') return undefined;
  if (!/^[\x21-\x7e]{1,1024}$/.test(trimmed)) throw downloadError('the token has characters that no token has');
  return trimmed;
}
