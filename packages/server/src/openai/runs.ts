import { StetError } from '@stet/backend';
import type { HttpExchange } from '../http/router.js';

/** The requests of HTTP clients, from when they run until they are answered: counted, and ended when the server goes away. */
export class Runs {
  readonly #open = new Set<AbortController>();
  #state: 'open' | 'draining' = 'open';
  #onIdle: () => void = () => {};

  get count(): number {
    return this.#open.size;
  }

  /**
   * For as long as the answer is not sent. The signal is aborted when the client is gone, and when the server cannot
   * wait any longer: its reason is the error to answer with. Throws `STET_ERR_SHUTTING_DOWN` while the server goes away.
   */
  begin({ signal: gone, response }: Pick<HttpExchange, 'signal' | 'response'>): AbortSignal {
    if (this.#state === 'draining') throw new StetError('STET_ERR_SHUTTING_DOWN', 'the server is going away');
    const controller = new AbortController();
    const onGone = () => controller.abort(new StetError('STET_ERR_ABORTED', 'the client is gone'));
    gone.addEventListener('abort', onGone, { once: true });
    if (gone.aborted) onGone();
    if (!response.closed) {
      this.#open.add(controller);
      response.once('close', () => this.#end(controller));
    }
    return controller.signal;
  }

  /** Begins no more. Resolves when the last one is answered. */
  async drain(): Promise<void> {
    this.#state = 'draining';
    if (this.#open.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Cuts off what still runs. */
  cut(): void {
    for (const controller of this.#open)
      controller.abort(new StetError('STET_ERR_SHUTTING_DOWN', 'the server is restarting'));
  }

  #end(controller: AbortController): void {
    this.#open.delete(controller);
    if (this.#open.size === 0) this.#onIdle();
  }
}
