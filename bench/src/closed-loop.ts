import { isStetError } from '@stet/backend';
import type { Engine, GenerateEvent, GenerateRequest } from '@stet/engine';
import { LoopMeter, type LoopResult } from './loop-meter.js';

/** One client: it sends a request, reads the answer, and sends the next one at once. */
export interface LoopStream {
  /** Request 0, 1, 2, … of the stream; a pure function. */
  request(index: number): GenerateRequest;
  /** `measured`: its answers 1 .. measuredRequests count, the one before them is a warm-up. `load`: it only keeps the engine busy. */
  readonly role: 'measured' | 'load';
  /** Sees every answer, also unmeasured ones, the last of which may break off. */
  onEvent?(index: number, event: GenerateEvent): void;
}

/**
 * Keeps all streams busy until every measured one has its answers: whoever is done before goes on unmeasured, so the
 * load does not fade while the last one is measured.
 */
export async function runClosedLoop(
  engine: Engine,
  streams: readonly LoopStream[],
  measuredRequests: number,
): Promise<LoopResult> {
  const measured = streams.filter(({ role }) => role === 'measured').length;
  const end = new AbortController();
  const meter = new LoopMeter(measured, measured * measuredRequests);
  const clients = streams.map(async (stream) => {
    for (let index = 0; !meter.isComplete; index++) {
      const counts = stream.role === 'measured' && index >= 1 && index <= measuredRequests;
      const answer = counts ? meter.beginAnswer(performance.now()) : undefined;
      for await (const event of eventsOf(engine, stream.request(index), end.signal)) {
        stream.onEvent?.(index, event);
        if (event.type !== 'commit') continue;
        meter.commit(event.tokens.length);
        answer?.commit(performance.now());
      }
      if (answer) meter.endAnswer(performance.now());
      if (meter.isComplete) end.abort();
    }
  });
  try {
    await Promise.all(clients);
  } finally {
    end.abort();
    await Promise.allSettled(clients);
  }
  return meter.result();
}

/** One answer to its end, or until everybody has finished. */
async function* eventsOf(engine: Engine, request: GenerateRequest, shared: AbortSignal): AsyncGenerator<GenerateEvent> {
  try {
    // A signal of its own: Node warns of a leak where many listeners share one.
    yield* engine.generate(request, { signal: AbortSignal.any([shared]) });
  } catch (error) {
    if (!(shared.aborted && isStetError(error) && error.code === 'STET_ERR_ABORTED')) throw error;
  }
}
