import { assertNever } from '@stet/backend';
import { FrameSocket, type StreamEnd } from './frame-socket.js';
import type { LoadRequest } from './requests.js';
import { readServerSentEvents } from './server-sent-events.js';
import { Transcript, Violation } from './stream-checker.js';

/** One answer as its reader saw it. */
export interface LoadAnswer {
  readonly tokenCount: number;
  readonly text: string;
  /** Of a deterministic answer, as the server says; over WebSocket it is also that of the tokens that came. */
  readonly hash: string | undefined;
  /** From sending the request to its first commit, ms. */
  readonly firstTokenMs: number;
  /** Between one commit and the next, ms. */
  readonly gapsMs: readonly number[];
}

/** Asks for one answer after the other. `ask` rejects with a {@link Violation} or an `Error` that says what came instead. */
export interface LoadClient {
  ask(request: LoadRequest): Promise<LoadAnswer>;
  close(): Promise<void>;
}

/** An answer that takes longer is lost. */
const ANSWER_TIMEOUT_MS = 120_000;

/** When commits came. */
class CommitClock {
  firstTokenMs = 0;
  readonly gapsMs: number[] = [];
  readonly #start = performance.now();
  #last: number | undefined;

  tick(): void {
    const now = performance.now();
    if (this.#last === undefined) this.firstTokenMs = now - this.#start;
    else this.gapsMs.push(now - this.#last);
    this.#last = now;
  }
}

export class WebSocketClient implements LoadClient {
  private constructor(private readonly socket: FrameSocket) {}

  static async connect(url: string): Promise<WebSocketClient> {
    return new WebSocketClient(await FrameSocket.connect(url));
  }

  async ask({ request }: LoadRequest): Promise<LoadAnswer> {
    const transcript = new Transcript();
    const stream = this.socket.start({ type: 'generate', ...request }, transcript);
    const clock = new CommitClock();
    stream.onFrame = ({ type }) => {
      if (type === 'commit') clock.tick();
    };
    const { receipt } = doneOf(await inTime(stream.ended));
    checkLength(transcript.tokenCount, request.maxTokens);
    if (request.deterministic && !receipt) throw new Violation('wrong', 'a deterministic answer has no receipt');
    const { firstTokenMs, gapsMs } = clock;
    const { tokenCount, text } = transcript;
    return { tokenCount, text, hash: receipt?.outputHash, firstTokenMs, gapsMs };
  }

  close(): Promise<void> {
    return this.socket.close();
  }
}

/** What of a chunk of `/v1/completions` matters here. */
interface Chunk {
  readonly choices: readonly { readonly text: string; readonly finish_reason: string | null }[];
  readonly usage?: { readonly completion_tokens: number } | null;
  readonly stet?: { readonly receipt?: { readonly outputHash: string } };
  readonly error?: { readonly code: string; readonly message: string };
}

/** Server-sent events of OpenAI's API, each answer over a request of its own. */
export class EventsClient implements LoadClient {
  constructor(private readonly url: string) {}

  async ask(load: LoadRequest): Promise<LoadAnswer> {
    const clock = new CommitClock();
    const response = await fetch(`${this.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(bodyOf(load)),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    if (!response.ok || !response.body) throw new Error(`status ${response.status}: ${await response.text()}`);
    let text = '';
    let tokenCount: number | undefined;
    let hash: string | undefined;
    let isDone = false;
    for await (const data of readServerSentEvents(response.body)) {
      if (isDone) throw new Violation('reordered', 'an event came after the last one');
      isDone = data === '[DONE]';
      if (isDone) continue;
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.error) throw new Error(chunk.error.code);
      const [choice] = chunk.choices;
      // The end alone is no commit.
      if (choice && (choice.text !== '' || choice.finish_reason === null)) clock.tick();
      text += choice?.text ?? '';
      hash = chunk.stet?.receipt?.outputHash ?? hash;
      tokenCount = chunk.usage?.completion_tokens ?? tokenCount;
    }
    if (!isDone || tokenCount === undefined) throw new Violation('lost', 'the events ended before the last one');
    checkLength(tokenCount, load.request.maxTokens);
    const { firstTokenMs, gapsMs } = clock;
    return { tokenCount, text, hash, firstTokenMs, gapsMs };
  }

  async close(): Promise<void> {}
}

function bodyOf({ request }: LoadRequest): object {
  const { maxTokens, topP, ignoreEos, ...same } = request;
  return {
    ...same,
    max_tokens: maxTokens,
    ignore_eos: ignoreEos,
    ...(topP !== undefined && { top_p: topP }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function doneOf(end: StreamEnd) {
  switch (end.kind) {
    case 'done':
      return end.frame;
    case 'refused':
      throw new Error(end.frame.code);
    case 'violation':
      throw end.error;
    case 'cut':
      throw new Error(`the socket was closed with ${end.closeCode}`);
    default:
      return assertNever(end);
  }
}

function checkLength(tokenCount: number, asked: number): void {
  if (tokenCount !== asked) throw new Violation('lost', `${tokenCount} tokens came of ${asked}`);
}

async function inTime<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Violation('lost', 'the answer did not end')), ANSWER_TIMEOUT_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
