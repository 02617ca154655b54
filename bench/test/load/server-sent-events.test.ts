import { describe, expect, it } from 'vitest';
import { readServerSentEvents } from '../../src/load/server-sent-events.js';

describe('a reader of server-sent events', () => {
  it('gives the data of each event, however the bytes are cut', async () => {
    const bytes = new TextEncoder().encode(
      ': alive\n\ndata: {"a":"ä"}\n\ndata: one\ndata: two\n\ndata: [DONE]\n\ndata: cut',
    );
    for (const size of [1, 2, 7, 1000]) {
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
          controller.close();
        },
      });
      const events: string[] = [];
      for await (const data of readServerSentEvents(body)) events.push(data);
      expect(events).toEqual(['{"a":"ä"}', 'one\ntwo', '[DONE]']);
    }
  });
});
