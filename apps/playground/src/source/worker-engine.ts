import { assert, assertNever, StetError } from '@stet/backend';
import type { GenerateEvent } from '@stet/engine';
import type { AnswerRequest, AnswerSource, SourceInfo } from './answer-source.js';
import { deferred } from './deferred.js';
import { EventQueue } from './event-queue.js';
import type { EngineChoice, ErrorFields, FromWorker, OpenProgress, ToWorker } from './messages.js';

/** How long a worker may take to free what it has before it is ended. */
const CLOSE_TIMEOUT_MS = 3000;

export interface OpenWorkerOptions {
  readonly onProgress: (progress: OpenProgress) => void;
  /** Ends the worker and rejects with `STET_ERR_ABORTED`. */
  readonly signal: AbortSignal;
}

/**
 * An engine in a worker of its own: the steps of a backend, the digest of the model and the sampling of tokens would
 * hold up typing and scrolling if they shared the page's thread. Rejects with a `StetError`; then the worker is gone.
 */
export async function openWorkerEngine(choice: EngineChoice, options: OpenWorkerOptions): Promise<AnswerSource> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'stet engine' });
  const engine = new WorkerEngine(worker, options.onProgress);
  const onAbort = () => engine.fail(aborted());
  options.signal.addEventListener('abort', onAbort);
  try {
    if (options.signal.aborted) throw aborted();
    await engine.open(choice);
    return engine;
  } catch (error) {
    worker.terminate();
    throw error;
  } finally {
    options.signal.removeEventListener('abort', onAbort);
  }
}

class WorkerEngine implements AnswerSource {
  readonly #worker: Worker;
  readonly #onProgress: (progress: OpenProgress) => void;
  readonly #streams = new Map<number, EventQueue>();
  readonly #opened = deferred<SourceInfo>();
  readonly #closed = deferred<void>();
  #info: SourceInfo | undefined;
  #failure: StetError | undefined;
  #closing: Promise<void> | undefined;
  #requestCount = 0;

  constructor(worker: Worker, onProgress: (progress: OpenProgress) => void) {
    this.#worker = worker;
    this.#onProgress = onProgress;
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault();
      const why = event.message || 'its code could not be loaded';
      this.fail(new StetError('STET_ERR_BACKEND_FAILED', `the engine's worker stopped: ${why}`));
    };
  }

  get info(): SourceInfo {
    assert(this.#info, 'the engine is open');
    return this.#info;
  }

  async open(choice: EngineChoice): Promise<void> {
    this.#post({ kind: 'open', choice });
    this.#info = await this.#opened.promise;
  }

  generate(
    request: AnswerRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<GenerateEvent> {
    const id = this.#requestCount++;
    const cancel = () => this.#post({ kind: 'cancel', id });
    const stream = new EventQueue(cancel);
    if (this.#failure) stream.end(this.#failure);
    else if (signal?.aborted) stream.end(aborted());
    else {
      this.#streams.set(id, stream);
      this.#post({ kind: 'generate', id, request });
      signal?.addEventListener('abort', cancel, { once: true });
    }
    return stream;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Nothing will come from the worker any more. */
  fail(error: StetError): void {
    this.#failure ??= error;
    this.#opened.reject(error);
    this.#closed.resolve();
    for (const stream of this.#streams.values()) stream.end(error);
    this.#streams.clear();
  }

  async #close(): Promise<void> {
    this.#failure ??= new StetError('STET_ERR_ENGINE_CLOSED', 'the engine was closed');
    this.#post({ kind: 'close' });
    const timer = setTimeout(() => this.#closed.resolve(), CLOSE_TIMEOUT_MS);
    await this.#closed.promise;
    clearTimeout(timer);
    this.#worker.terminate();
    this.fail(this.#failure);
  }

  #receive(message: FromWorker): void {
    switch (message.kind) {
      case 'progress':
        this.#onProgress(message.progress);
        break;
      case 'opened':
        this.#opened.resolve(message.info);
        break;
      case 'refused':
        this.#opened.reject(revive(message.error));
        break;
      case 'event':
        this.#streams.get(message.id)?.push(message.event);
        break;
      case 'ended':
        this.#streams.get(message.id)?.end(message.error && revive(message.error));
        this.#streams.delete(message.id);
        break;
      case 'closed':
        this.#closed.resolve();
        break;
      default:
        assertNever(message);
    }
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }
}

function revive({ code, message }: ErrorFields): StetError {
  return new StetError(code, message);
}

function aborted(): StetError {
  return new StetError('STET_ERR_ABORTED', 'aborted by the user');
}
