import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Ask, askCrowd, MAX_LANES } from './crowds.js';
import type { Answerer } from './distinct-answers.js';

/** Until the model is loaded. */
const START_MS = 120_000;
/** Until a server that was asked to end is ended. */
const STOP_MS = 5_000;
const POLL_MS = 100;
/** From a broken connection to the end of the process, where that is why. */
const LAST_WORD_MS = 2_000;
/** What is kept of what it says, to tell when it fails. */
const SAID_CHARACTERS = 4_000;
/** Tokens of one decode call, as llama-bench has by default. */
const BATCH_TOKENS = 512;

export interface LlamaServerOptions {
  /** `llama-server`. */
  readonly program: string;
  readonly model: string;
  readonly threads: number;
  /** Positions of each of its {@link MAX_LANES} slots. */
  readonly slotPositions: number;
}

export interface LlamaServer extends Answerer {
  close(): Promise<void>;
}

export const llamaServerName = 'llama.cpp server';

/** llama.cpp's server in a process of its own, on a free port of this machine alone. */
export async function startLlamaServer(options: LlamaServerOptions): Promise<LlamaServer> {
  const { program, model, threads, slotPositions } = options;
  if (!existsSync(program)) throw new Error(`there is no ${program}`);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ['-m', model, '-t', `${threads}`, '-b', `${BATCH_TOKENS}`, '--host', '127.0.0.1', '--port', `${port}`];
  const slots = ['-np', `${MAX_LANES}`, '-c', `${MAX_LANES * slotPositions}`];
  const child = spawn(program, [...args, ...slots], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = endOf(child);
  endWithUs(child);
  try {
    await Promise.race([untilHealthy(url), ended]);
  } catch (error) {
    await stop(child);
    throw error;
  }
  const ask = askOf(url);
  return {
    name: llamaServerName,
    kind: 'peer',
    promise: 'none',
    answer: async (crowd) => {
      try {
        return await askCrowd(crowd, ask);
      } catch (error) {
        // Where the process has ended, that says more than a broken connection.
        await Promise.race([ended, sleep(LAST_WORD_MS)]);
        throw error;
      }
    },
    close: () => stop(child),
  };
}

/** Output tokens of `POST /completion` with `return_tokens`. */
export function parseCompletion(body: unknown, outputTokens: number): number[] {
  const tokens = typeof body === 'object' && body !== null && 'tokens' in body ? body.tokens : undefined;
  if (!Array.isArray(tokens) || tokens.length !== outputTokens || !tokens.every(Number.isSafeInteger))
    throw new Error(`llama-server answered ${JSON.stringify(body).slice(0, 200)}, expected ${outputTokens} tokens`);
  return tokens;
}

function askOf(url: string): Ask {
  return async ({ promptTokens, outputTokens }, signal) => {
    const response = await fetch(`${url}/completion`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        prompt: promptTokens,
        n_predict: outputTokens,
        temperature: 0,
        ignore_eos: true,
        cache_prompt: false,
        return_tokens: true,
        stream: false,
      }),
      signal,
    });
    if (!response.ok) throw new Error(`llama-server answered ${response.status}: ${(await response.text()).trim()}`);
    return parseCompletion(await response.json(), outputTokens);
  };
}

/** Rejects when the process has ended, with what it said last; never resolves. */
function endOf(child: ChildProcess): Promise<never> {
  let said = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-SAID_CHARACTERS);
  });
  const ended = new Promise<never>((_, reject) => {
    child.once('error', reject);
    // With `close` all that it said has come.
    child.once('close', (code, signal) =>
      reject(new Error(`llama-server ended with ${signal ?? code}: ${said.trim().split('\n').at(-1)}`)),
    );
  });
  ended.catch(() => {});
  return ended;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Nothing tells llama-server that who started it is gone: it is ended by whatever ends us, as far as that can be seen. */
function endWithUs(child: ChildProcess): void {
  const onExit = () => void child.kill();
  const onSignal = (signal: NodeJS.Signals) => {
    child.kill();
    settle();
    process.kill(process.pid, signal);
  };
  const settle = () => {
    process.off('exit', onExit);
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
  process.on('exit', onExit);
  for (const signal of SIGNALS) process.on(signal, onSignal);
  child.once('close', settle);
}

async function untilHealthy(url: string): Promise<void> {
  const deadline = performance.now() + START_MS;
  while (performance.now() < deadline) {
    const response = await fetch(`${url}/health`).catch(() => undefined);
    await response?.text();
    if (response?.ok) return;
    await sleep(POLL_MS);
  }
  throw new Error(`llama-server was not ready after ${START_MS / 1000} seconds`);
}

function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    child.once('close', () => {
      clearTimeout(kill);
      resolve();
    });
    child.kill();
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(new Error('no free port')),
      );
    });
  });
}
