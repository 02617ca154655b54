import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Listening, ServerAnswer, ServerCommand, ServerSample, ServerSetup } from './server-messages.js';

/** A server in a process of its own, so that its memory and its event loop are nobody else's. */
export class ServerChild {
  readonly #waiting: { resolve(answer: ServerAnswer): void; reject(error: Error): void }[] = [];
  #ended: Error | undefined;

  private constructor(
    private readonly child: ChildProcess,
    private readonly exited: Promise<void>,
  ) {
    child.on('message', (answer) => this.#waiting.shift()?.resolve(answer as ServerAnswer));
    child.on('error', (error) => this.#fail(error));
    child.on('exit', (code, signal) => this.#fail(new Error(`the server's process ended (${signal ?? code})`)));
  }

  static async start(setup: ServerSetup): Promise<{ readonly child: ServerChild; readonly listening: Listening }> {
    const process = fork(fileURLToPath(new URL('load-server.js', import.meta.url)), {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const exited = new Promise<void>((resolve) => process.once('exit', () => resolve()).once('error', () => resolve()));
    const child = new ServerChild(process, exited);
    try {
      const listening = await child.#ask({ kind: 'start', setup });
      if (listening.kind !== 'listening') throw new Error(`the server answered ${listening.kind} to "start"`);
      return { child, listening };
    } catch (error) {
      await child.close();
      throw error;
    }
  }

  async sample(collect = false): Promise<ServerSample> {
    const answer = await this.#ask({ kind: 'sample', collect });
    if (answer.kind !== 'sample') throw new Error(`the server answered ${answer.kind} to "sample"`);
    return answer.sample;
  }

  /** Samples until `condition` holds; throws, with what was seen last, when that takes too long. */
  async until(condition: (sample: ServerSample) => boolean, what: string, timeoutMs = 60_000): Promise<ServerSample> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const sample = await this.sample();
      if (condition(sample)) return sample;
      if (performance.now() > deadline) {
        const { server, engine } = sample;
        throw new Error(`waited in vain for ${what}: ${JSON.stringify({ server, engine })}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Nobody connected, nothing running, nothing kept, every block free. */
  untilIdle(timeoutMs = 60_000): Promise<ServerSample> {
    return this.until(({ server, engine }) => isIdle(server, engine), 'an idle server', timeoutMs);
  }

  async close(): Promise<void> {
    if (this.child.connected) this.child.disconnect();
    await this.exited;
  }

  async #ask(command: ServerCommand): Promise<ServerAnswer> {
    if (this.#ended) throw this.#ended;
    const answer = await new Promise<ServerAnswer>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.child.send(command);
    });
    if (answer.kind === 'failed') throw new Error(`the server failed: ${answer.message}`);
    return answer;
  }

  #fail(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

function isIdle(server: ServerSample['server'], engine: ServerSample['engine']): boolean {
  const { sockets, streams, unsentBytes, detachedStreams, keptBytes } = server;
  const { running, waiting, blocks } = engine;
  return [sockets, streams, unsentBytes, detachedStreams, keptBytes, running, waiting, blocks.held].every(
    (n) => n === 0,
  );
}
