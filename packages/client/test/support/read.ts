import type { ClientEvent, StreamError } from '@stet/client';

/** What a reader got of a stream, and how it ended. */
export interface Reading {
  readonly events: ClientEvent[];
  readonly tokens: number[];
  readonly text: string;
  readonly error: StreamError | undefined;
}

export async function read(stream: AsyncIterable<ClientEvent>): Promise<Reading> {
  const events: ClientEvent[] = [];
  let error: StreamError | undefined;
  try {
    for await (const event of stream) events.push(event);
  } catch (thrown) {
    error = thrown as StreamError;
  }
  const commits = events.filter((event) => event.type === 'commit');
  return {
    events,
    tokens: commits.flatMap(({ tokens }) => tokens),
    text: commits.map(({ text }) => text).join(''),
    error,
  };
}
