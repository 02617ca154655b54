import type { WebSocket } from 'ws';
import type { ServerFrame } from './protocol/index.js';

export interface OutboxLimits {
  readonly highWaterBytes: number;
  readonly lowWaterBytes: number;
  readonly slowReaderMs: number;
}

/** What the owner of an outbox does as it fills and drains. */
export interface OutboxEvents {
  /** The high mark was passed. */
  onFull(): void;
  /** The low mark is reached again. */
  onDrained(): void;
  /** The outbox stayed full for `slowReaderMs`. */
  onSlow(): void;
}

/**
 * The frames of one socket on their way out. It counts the bytes that the operating system has not taken yet: `ws` and
 * Node queue without a bound, so whoever has more to send waits in {@link ready} while the outbox is full.
 */
export class Outbox {
  #unsentBytes = 0;
  #state: 'open' | 'full' | 'closed' = 'open';
  #deadline: NodeJS.Timeout | undefined;
  readonly #waiters = new Set<() => void>();

  constructor(
    private readonly socket: WebSocket,
    private readonly limits: OutboxLimits,
    private readonly events: OutboxEvents,
  ) {}

  get unsentBytes(): number {
    return this.#unsentBytes;
  }

  get state(): 'open' | 'full' | 'closed' {
    return this.#state;
  }

  /** Queues a frame. Never waits and never throws; after {@link close} it drops the frame. */
  send(frame: ServerFrame): void {
    this.sendText(JSON.stringify(frame));
  }

  /** As {@link send}, for a frame that is JSON already. */
  sendText(frame: string): void {
    if (this.#state === 'closed') return;
    const bytes = Buffer.from(frame);
    this.#unsentBytes += bytes.length;
    this.socket.send(bytes, { binary: false }, () => this.#taken(bytes.length));
    if (this.#state === 'open' && this.#unsentBytes > this.limits.highWaterBytes) this.#fill();
  }

  /** Undefined while there is room, else a promise that resolves once there is, or once `signal` is aborted. */
  ready(signal: AbortSignal): Promise<void> | undefined {
    if (this.#state !== 'full' || signal.aborted) return undefined;
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiters.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiters.add(wake);
      signal.addEventListener('abort', wake);
    });
  }

  /** Drops what is sent from now on and lets everybody who waits go. */
  close(): void {
    this.#state = 'closed';
    clearTimeout(this.#deadline);
    this.#wakeAll();
  }

  #fill(): void {
    this.#state = 'full';
    this.#deadline = setTimeout(this.events.onSlow, this.limits.slowReaderMs);
    this.events.onFull();
  }

  #taken(bytes: number): void {
    this.#unsentBytes -= bytes;
    if (this.#state !== 'full' || this.#unsentBytes > this.limits.lowWaterBytes) return;
    this.#state = 'open';
    clearTimeout(this.#deadline);
    this.events.onDrained();
    this.#wakeAll();
  }

  /** In the order in which they came, so that the streams of a socket take turns. */
  #wakeAll(): void {
    for (const wake of [...this.#waiters]) wake();
  }
}
