import { assertNever } from '@stet/backend';
import type { StreamFrame } from '@stet/server/protocol';
import { sleep } from './abortable.js';
import type { ClientStream } from './client-stream.js';
import type { Connection, Exchange, Loss, OpeningFrame, OutgoingRequest, StreamEnd } from './connection.js';
import type { CreditWindow } from './credit-window.js';
import type { Link } from './link.js';
import { type ReconnectPolicy, retryDelayMs } from './reconnect-policy.js';
import { StreamError } from './stream-error.js';
import type { Transcript } from './transcript.js';

export interface DriverParts {
  readonly link: Link;
  readonly policy: ReconnectPolicy;
  readonly request: OutgoingRequest;
  readonly transcript: Transcript;
  readonly credits: CreditWindow | undefined;
  readonly reader: ClientStream;
}

/**
 * Carries one request from connection to connection until its end. What was received is gone on with: by the handle of
 * the stream where the server still has it, or else, if the request is deterministic, by having the output computed
 * again.
 */
export class StreamDriver {
  #exchange: Exchange | undefined;
  /** Whether the server may still have the stream under its handle. */
  #handle: 'usable' | 'forgotten' = 'usable';
  /** Attempts to go on since the last commit. */
  #attempts = 0;
  #interruption: StreamError | undefined;

  constructor(private readonly parts: DriverParts) {}

  /** Resolves when the stream has ended. When `signal` is aborted, which the reader was told, so is the server. */
  async run(signal: AbortSignal): Promise<void> {
    const { link, reader } = this.parts;
    const onAbort = () => this.#exchange?.cancel();
    signal.addEventListener('abort', onAbort);
    try {
      while (reader.state === 'open') {
        const connection = await link.connection(signal);
        await this.#goOn(await this.#carry(connection), connection, signal);
      }
    } catch (error) {
      if (!(error instanceof StreamError)) throw error;
      reader.fail(error);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** The reader has taken so many tokens. */
  onRead(tokenCount: number): void {
    const grant = this.parts.credits?.onRead(tokenCount) ?? 0;
    if (grant > 0) this.#exchange?.credit(grant);
  }

  async #carry(connection: Connection): Promise<StreamEnd> {
    const frame = this.#openingFrame();
    this.parts.transcript.begin();
    this.#exchange = connection.open(frame, (received) => this.#receive(received));
    try {
      return await this.#exchange.ended;
    } finally {
      this.#exchange = undefined;
    }
  }

  #openingFrame(): OpeningFrame {
    const { request, transcript, credits } = this.parts;
    const { accepted, tokenCount, hash } = transcript;
    const credit = credits && { credit: credits.start() };
    if (accepted === undefined) return { ...request, type: 'generate', ...credit };
    const { stream, seed } = accepted;
    if (this.#handle === 'usable') return { type: 'resume', stream, after: tokenCount, ...credit };
    return { ...request, type: 'generate', seed, ...(tokenCount > 0 && { after: tokenCount, hash }), ...credit };
  }

  #receive(frame: StreamFrame): void {
    const { transcript, credits, reader } = this.parts;
    const news = transcript.take(frame);
    if (frame.type === 'accepted') this.#handle = 'usable';
    if (frame.type === 'commit') {
      this.#attempts = 0;
      credits?.onReceived(frame.tokens.length);
    }
    const { id: _, seq: __, ...event } = frame;
    if (news === 'news') reader.push(event);
  }

  /** Prepares the next attempt, or throws what ends the stream. */
  async #goOn(end: StreamEnd, connection: Connection, signal: AbortSignal): Promise<void> {
    switch (end.kind) {
      case 'done':
      case 'cancelled':
        return;
      case 'lost':
        this.#onLost(end.loss);
        return;
      case 'failed':
      case 'refused':
        await this.#onError(end, connection, signal);
        return;
      default:
        assertNever(end);
    }
  }

  #onLost({ kind, error }: Loss): void {
    if (kind === 'final' || this.parts.policy.kind === 'off') throw error;
    this.#interrupt(error);
  }

  async #onError(
    { kind, error }: { readonly kind: 'failed' | 'refused'; readonly error: StreamError },
    connection: Connection,
    signal: AbortSignal,
  ): Promise<void> {
    const { link, policy } = this.parts;
    if (policy.kind === 'off') throw error;
    if (error.code === 'STET_ERR_SHUTTING_DOWN') {
      link.retire(connection, error);
      this.#interrupt(error);
      this.#forget();
    } else if (kind === 'refused' && error.code === 'STET_ERR_UNKNOWN_STREAM' && this.#interruption !== undefined) {
      this.#forget();
    } else if (kind === 'refused' && error.retryable && this.#interruption !== undefined) {
      // So many come back at once that the server cannot take all of them.
      this.#interrupt(error);
      await sleep(retryDelayMs(policy, this.#attempts), signal);
    } else throw error;
  }

  #interrupt(error: StreamError): void {
    const { policy, reader, transcript } = this.parts;
    if (this.#attempts === policy.maxAttempts) throw error;
    this.#attempts++;
    this.#interruption = error;
    if (transcript.hasCandidates) reader.push({ type: 'rollback', to: transcript.tokenCount });
    transcript.forgetCandidates();
  }

  /** The server does not have the stream: it must be computed again, and an ordinary one comes out otherwise. */
  #forget(): void {
    const { accepted, tokenCount } = this.parts.transcript;
    this.#handle = 'forgotten';
    if (accepted === undefined || accepted.deterministic || tokenCount === 0) return;
    const { code, message } = this.#interruption!;
    throw new StreamError(
      code,
      `${message}, and the server no longer has the stream; an ordinary request cannot be regenerated: send it again`,
      { retryable: true, cause: this.#interruption },
    );
  }
}
