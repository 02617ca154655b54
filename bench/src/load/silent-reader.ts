import { defaultServerLimits } from '@stet/server';
import { FrameSocket } from './frame-socket.js';
import { WebSocketClient } from './load-client.js';
import { RequestMix } from './requests.js';
import { ServerChild } from './server-child.js';
import { Transcript } from './stream-checker.js';
import { type Distribution, distribution } from './tally.js';

const OTHERS = 8;
const SILENT_STREAMS = 32;
/** Every token brings twenty others with their texts, so that little output fills the buffers of the operating system. */
const WIDE_REQUEST = { prompt: 'Once upon a time', maxTokens: 800, logprobs: 20, ignoreEos: true };
/** What the engine merges for a stream that nobody reads before it pauses, and a window that was under way. */
const MERGED_TOKENS = 256 + 17;
/** How much wider than the average a token of a merged commit may be. */
const WIDTH_MARGIN = 1.5;

export interface SilentReaderFigures {
  /** From when nothing of it was taken any more until its requests were freed. */
  readonly silentMs: number;
  readonly closeCode: number;
  readonly peakUnsentBytes: number;
  /** The high mark, and a merged commit of each of its streams. */
  readonly boundBytes: number;
  /** Gaps between the commits of the other clients, ms, without the silent one and beside it. */
  readonly alone: Distribution;
  readonly beside: Distribution;
}

/** One client reads nothing until the server gives it up, `silentMs` later, while others go on. */
export async function measureSilentReader(threads: number, silentMs: number): Promise<SilentReaderFigures> {
  const { child, listening } = await ServerChild.start({
    threads,
    // Enough for a busy machine to come to reading the close frame.
    limits: { slowReaderMs: silentMs, closeHandshakeMs: 20_000 },
  });
  try {
    return await measure(child, listening.url, silentMs);
  } finally {
    await child.close();
  }
}

async function measure(child: ServerChild, url: string, silentMs: number): Promise<SilentReaderFigures> {
  const boundBytes =
    defaultServerLimits.highWaterBytes + SILENT_STREAMS * MERGED_TOKENS * (await bytesPerToken(url)) * WIDTH_MARGIN;
  const others = new OtherReaders(url);
  const running = others.run();
  try {
    others.phase = 'alone';
    await new Promise((resolve) => setTimeout(resolve, silentMs));
    others.phase = 'between';
    const silent = await FrameSocket.connect(url);
    silent.pause();
    for (let stream = 0; stream < SILENT_STREAMS; stream++)
      silent.start({ type: 'generate', ...WIDE_REQUEST, seed: stream, temperature: 1 }, new Transcript());
    const watch = new UnsentWatch();
    await child.until((sample) => watch.isStalled(sample.server.unsentBytes), 'a reader whose buffers are full');
    const start = performance.now();
    others.phase = 'beside';
    const freed = await child.until(
      ({ server }) => {
        watch.isStalled(server.unsentBytes);
        return server.streams <= OTHERS;
      },
      'the end of the silent reader',
      silentMs + 60_000,
    );
    others.phase = 'between';
    const lastedMs = Math.round(performance.now() - start);
    silent.resume();
    const { code } = await silent.closed;
    watch.isStalled(freed.server.unsentBytes);
    return {
      silentMs: lastedMs,
      closeCode: code,
      peakUnsentBytes: watch.peak,
      boundBytes: Math.round(boundBytes),
      alone: distribution(others.gapsMs.alone),
      beside: distribution(others.gapsMs.beside),
    };
  } finally {
    others.stop();
    await running;
  }
}

/** Whether the operating system still takes anything. */
class UnsentWatch {
  peak = 0;
  #last = 0;
  #since = 0;

  isStalled(unsentBytes: number): boolean {
    this.peak = Math.max(this.peak, unsentBytes);
    if (unsentBytes !== this.#last || unsentBytes <= defaultServerLimits.highWaterBytes)
      this.#since = performance.now();
    this.#last = unsentBytes;
    return performance.now() - this.#since > 500;
  }
}

class OtherReaders {
  phase: 'alone' | 'between' | 'beside' = 'between';
  readonly gapsMs: Record<'alone' | 'beside', number[]> = { alone: [], beside: [] };
  #state: 'running' | 'stopped' = 'running';

  constructor(private readonly url: string) {}

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: OTHERS }, (_, index) => this.#read(index)));
  }

  stop(): void {
    this.#state = 'stopped';
  }

  async #read(index: number): Promise<void> {
    const client = await WebSocketClient.connect(this.url);
    const mix = new RequestMix(0, 1);
    for (let request = index; this.#state === 'running'; request += OTHERS) {
      const { phase } = this;
      const { gapsMs } = await client.ask(mix.request(request));
      // An answer that began in another phase has gaps of both.
      if (phase === this.phase && phase !== 'between') for (const gap of gapsMs) this.gapsMs[phase].push(gap);
    }
    await client.close();
  }
}

async function bytesPerToken(url: string): Promise<number> {
  const socket = await FrameSocket.connect(url);
  const transcript = new Transcript();
  await socket.start({ type: 'generate', ...WIDE_REQUEST, maxTokens: 200, temperature: 1 }, transcript).ended;
  await socket.close();
  return socket.receivedBytes / transcript.tokenCount;
}
