import { assert, StetError } from '@stet/backend';
import { causeMessage } from './quote.js';
import type { FileSource } from './source.js';

/** Types that a model's files are served as. A server that would answer a missing file with a page says 404 to these. */
const ACCEPT = 'application/octet-stream, application/json, text/plain';

export interface UrlSourceOptions {
  /** For messages; by default the folder of the first URL. Its last part is the model's name. */
  readonly location?: string;
  /** Makes what is being fetched, and all that is asked for later, reject with `STET_ERR_ABORTED`. */
  readonly signal?: AbortSignal;
  /** Called as a file arrives, with its bytes so far; `total` is absent where the server does not say, or compresses. */
  readonly onProgress?: (name: string, done: number, total: number | undefined) => void;
  /** The platform's by default. */
  readonly fetch?: typeof fetch;
}

/**
 * Files of a web server, by their names, for browsers; `loadModel` takes one. Each is fetched once, whole, when it is first
 * asked for, and kept until `close`, so that it is never mixed from two versions; one that could not be had is asked for
 * again. Rejects with `STET_ERR_MODEL_NOT_FOUND` where the server has no such file, and with `STET_ERR_DOWNLOAD` where it
 * cannot be reached, fails or breaks off.
 *
 *     const model = await loadModel(urlSource({ 'config.json': '/model/config.json', 'model.safetensors': … }));
 */
export function urlSource(urls: Readonly<Record<string, string | URL>>, options: UrlSourceOptions = {}): FileSource {
  return new UrlSource(new Map(Object.entries(urls).map(([name, url]) => [name, String(url)])), options);
}

class UrlSource implements FileSource {
  readonly location: string;
  readonly #urls: ReadonlyMap<string, string>;
  readonly #options: UrlSourceOptions;
  readonly #files = new Map<string, Promise<Uint8Array>>();
  readonly #closing = new AbortController();

  constructor(urls: ReadonlyMap<string, string>, options: UrlSourceOptions) {
    this.#urls = urls;
    this.#options = options;
    const [first = 'no URL'] = urls.values();
    this.location = options.location ?? first.replace(/\/[^/]*$/, '');
  }

  async list(): Promise<string[]> {
    return [...this.#urls.keys()];
  }

  async size(name: string): Promise<number> {
    return (await this.#file(name)).length;
  }

  async read(name: string, start: number, end: number): Promise<Uint8Array> {
    const bytes = await this.#file(name);
    assert(
      start >= 0 && start <= end && end <= bytes.length,
      `read ${start}..${end} of ${name}, ${bytes.length} bytes`,
    );
    return bytes.slice(start, end);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const files = [...this.#files.values()];
    this.#files.clear();
    await Promise.allSettled(files);
  }

  #file(name: string): Promise<Uint8Array> {
    assert(!this.#closing.signal.aborted, `${this.location} is closed`);
    const known = this.#files.get(name);
    if (known) return known;
    const file = this.#fetch(name);
    this.#files.set(name, file);
    file.catch(() => this.#files.delete(name));
    return file;
  }

  async #fetch(name: string): Promise<Uint8Array> {
    const url = this.#urls.get(name);
    if (url === undefined) throw new StetError('STET_ERR_MODEL_NOT_FOUND', `${this.location} has no file ${name}`);
    const { signal, fetch = globalThis.fetch } = this.#options;
    const signals = [this.#closing.signal, ...(signal ? [signal] : [])];
    try {
      const response = await fetch(url, { headers: { accept: ACCEPT }, signal: AbortSignal.any(signals) });
      if (!response.ok) throw refusal(url, response.status);
      return await this.#body(name, response);
    } catch (cause) {
      if (cause instanceof StetError) throw cause;
      if (signals.some(({ aborted }) => aborted))
        throw new StetError('STET_ERR_ABORTED', `fetching ${url} was aborted`, { cause });
      throw new StetError('STET_ERR_DOWNLOAD', `cannot fetch ${url}: ${causeMessage(cause)}`, { cause });
    }
  }

  async #body(name: string, response: Response): Promise<Uint8Array> {
    const { onProgress } = this.#options;
    if (!onProgress || !response.body) return new Uint8Array(await response.arrayBuffer());
    const total = declaredLength(response);
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let done = 0;
    const reader = response.body.getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      pieces.push(piece.value);
      done += piece.value.length;
      onProgress(name, done, total);
    }
    return new Uint8Array(await new Blob(pieces).arrayBuffer());
  }
}

/** Bytes that will arrive; of a compressed answer the header gives others. */
function declaredLength({ headers }: Response): number | undefined {
  const length = headers.get('content-length');
  return length === null || headers.has('content-encoding') ? undefined : Number(length);
}

function refusal(url: string, status: number): StetError {
  const isMissing = status === 404 || status === 410;
  return new StetError(
    isMissing ? 'STET_ERR_MODEL_NOT_FOUND' : 'STET_ERR_DOWNLOAD',
    `${url} answers with status ${status}`,
  );
}
