import type { StetError } from '@stet/backend';
import { type ConnectionState, connect, type StetClient } from '@stet/client';
import type { GenerateEvent } from '@stet/engine';
import type { AnswerRequest, AnswerSource, SourceInfo } from './answer-source.js';
import { askReady, askTicket, checkOpenDoor } from './server-api.js';

/** How the connection to a server is. */
export type LinkState =
  | { readonly kind: 'connecting'; readonly attempt: number }
  /** `resumedCount`: answers that go on after the connection before this one was lost. */
  | { readonly kind: 'connected'; readonly resumedCount: number }
  | { readonly kind: 'waiting'; readonly attempt: number; readonly delayMs: number; readonly error: StetError }
  | { readonly kind: 'offline'; readonly error?: StetError };

export interface OpenServerOptions {
  /** As `serverBase` gives it. */
  readonly address: string;
  /** Stays in memory; the server gets it in exchange for tickets. */
  readonly key?: string;
  readonly signal: AbortSignal;
  readonly onState: (state: LinkState) => void;
}

/** Connects to a server by one WebSocket, over which all requests stream. Rejects with a `StetError`. */
export async function openServer({ address, key, signal, onState }: OpenServerOptions): Promise<AnswerSource> {
  onState({ kind: 'connecting', attempt: 1 });
  const info = await askReady(address, signal);
  const tickets = key === undefined ? undefined : new Tickets(address, key, await askTicket(address, key, signal));
  if (tickets === undefined) await checkOpenDoor(address, signal);
  const streams = new StreamCount();
  const client = await connect(new URL('v1/stream', address), {
    ...(tickets && { ticket: (options) => tickets.take(options.signal) }),
    signal,
    onState: (state) => {
      const shown = streams.after(state);
      if (shown) onState(shown);
    },
  });
  return new ServerSource(client, info, streams);
}

/** A ticket works once: the first is asked for before connecting, to learn whether the key is right. */
class Tickets {
  #first: string | undefined;

  constructor(
    private readonly address: string,
    private readonly key: string,
    first: string,
  ) {
    this.#first = first;
  }

  async take(signal: AbortSignal): Promise<string> {
    const first = this.#first;
    this.#first = undefined;
    return first ?? askTicket(this.address, this.key, signal);
  }
}

class ServerSource implements AnswerSource {
  constructor(
    private readonly client: StetClient,
    readonly info: SourceInfo,
    private readonly streams: StreamCount,
  ) {}

  generate(
    request: AnswerRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<GenerateEvent> {
    return this.streams.counted(this.client.generate(request, options));
  }

  close(): Promise<void> {
    return this.client.close();
  }
}

/** Streams that run, and what a connection's state means to them. */
class StreamCount {
  #runningCount = 0;
  #wasLost = false;

  async *counted(events: AsyncIterable<GenerateEvent>): AsyncGenerator<GenerateEvent> {
    this.#runningCount++;
    try {
      yield* events;
    } finally {
      this.#runningCount--;
    }
  }

  /** Undefined for the end of a connection that was closed on purpose. */
  after(state: ConnectionState): LinkState | undefined {
    switch (state.kind) {
      case 'connecting':
      case 'waiting':
        return state;
      case 'open': {
        const resumedCount = this.#wasLost ? this.#runningCount : 0;
        this.#wasLost = false;
        return { kind: 'connected', resumedCount };
      }
      case 'offline':
        this.#wasLost ||= this.#runningCount > 0;
        return state;
      case 'closed':
        return undefined;
    }
  }
}
