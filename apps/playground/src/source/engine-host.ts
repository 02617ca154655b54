import { assert, assertNever, isStetError } from '@stet/backend';
import type { Engine } from '@stet/engine';
import type { AnswerRequest } from './answer-source.js';
import type { ErrorFields, FromWorker, ToWorker } from './messages.js';
import { openEngine } from './open-engine.js';

/**
 * The worker's end of the port: opens the engine and runs its requests. Events are passed on as soon as they are there,
 * so nothing slows the scheduler but the requests themselves; what the page has not shown yet is at most their tokens.
 */
export class EngineHost {
  readonly #post: (message: FromWorker) => void;
  readonly #closing = new AbortController();
  readonly #running = new Map<number, AbortController>();
  #engine: Promise<Engine> | undefined;

  constructor(post: (message: FromWorker) => void) {
    this.#post = post;
  }

  receive(message: ToWorker): void {
    switch (message.kind) {
      case 'open': {
        assert(!this.#engine, 'an engine is opened once');
        const onProgress: Parameters<typeof openEngine>[1]['onProgress'] = (progress) =>
          this.#post({ kind: 'progress', progress });
        this.#engine = openEngine(message.choice, { signal: this.#closing.signal, onProgress });
        this.#engine.then(
          ({ info }) => this.#post({ kind: 'opened', info }),
          (error: unknown) => this.#post({ kind: 'refused', error: errorFields(error) }),
        );
        break;
      }
      case 'generate':
        void this.#generate(message.id, message.request);
        break;
      case 'cancel':
        this.#running.get(message.id)?.abort();
        break;
      case 'close':
        void this.#close();
        break;
      default:
        assertNever(message);
    }
  }

  async #generate(id: number, request: AnswerRequest): Promise<void> {
    const cancelling = new AbortController();
    this.#running.set(id, cancelling);
    try {
      assert(this.#engine, 'requests come after open');
      const engine = await this.#engine;
      for await (const event of engine.generate(request, { signal: cancelling.signal }))
        this.#post({ kind: 'event', id, event });
      this.#post({ kind: 'ended', id });
    } catch (error) {
      this.#post({ kind: 'ended', id, error: errorFields(error) });
    } finally {
      this.#running.delete(id);
    }
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    const engine = await this.#engine?.catch(() => undefined);
    await engine?.close();
    this.#post({ kind: 'closed' });
  }
}

/** What is no `StetError` is a mistake of ours; the page still says what is known. */
function errorFields(error: unknown): ErrorFields {
  if (isStetError(error)) return { code: error.code, message: error.message };
  return { code: 'STET_ERR_BACKEND_FAILED', message: error instanceof Error ? error.message : String(error) };
}
