import type { ServerResponse } from 'node:http';
import { withReadDeadline } from './read-deadline.js';

export interface SseLimits {
  /** How long the client may leave what was written unread before its connection is destroyed. */
  readonly slowReaderMs: number;
  /** Time without an event after which a comment tells proxies and clients that the stream lives. */
  readonly ssePingMs: number;
}

/** An answer as server-sent events. It queues one event at most beyond what Node's own high mark lets in. */
export class SseWriter {
  readonly #response: ServerResponse;
  readonly #limits: SseLimits;
  readonly #ping: NodeJS.Timeout;

  /** Sends the head of the answer, 200. */
  constructor(response: ServerResponse, limits: SseLimits) {
    this.#response = response;
    this.#limits = limits;
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-cache',
      'X-Accel-Buffering': 'no',
    });
    response.flushHeaders();
    this.#ping = setInterval(() => this.#sendPing(), limits.ssePingMs);
    response.once('close', () => clearInterval(this.#ping));
    if (response.destroyed) clearInterval(this.#ping);
  }

  /** Sends an event. Resolves when the client has room for the next, or is gone. */
  async send(data: string): Promise<void> {
    this.#ping.refresh();
    if (!this.#response.destroyed && !this.#response.write(eventOf(data))) await this.#drained();
  }

  /** Sends the last event and ends the answer. A client that does not read it is cut off. */
  async end(data: string): Promise<void> {
    clearInterval(this.#ping);
    if (this.#response.destroyed) return;
    const response = this.#response;
    await withReadDeadline(response, this.#limits.slowReaderMs, (resolve) =>
      response.once('finish', resolve).end(eventOf(data)),
    );
  }

  #sendPing(): void {
    if (!this.#response.writableNeedDrain) this.#response.write(': ping\n\n');
  }

  #drained(): Promise<void> {
    return withReadDeadline(this.#response, this.#limits.slowReaderMs, (resolve) =>
      this.#response.once('drain', resolve),
    );
  }
}

function eventOf(data: string): string {
  return `data: ${data}\n\n`;
}
