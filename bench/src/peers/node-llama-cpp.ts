import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { peersFolder } from '../folders.js';
import type { Contender } from './contender.js';
import { MAX_LANES } from './crowds.js';
import type { Answerer } from './distinct-answers.js';
import { type RunTimes, rateOf } from './rates.js';

/** Until the process answers a message; one that does not is ended. */
const ANSWER_MS = 600_000;
const INSTALL = 'npm ci --prefix bench/peers --ignore-scripts';

type Answer =
  | { readonly kind: 'ready' }
  | { readonly kind: 'loaded'; readonly version: string; readonly device: string }
  | ({ readonly kind: 'ran' } & RunTimes)
  | { readonly kind: 'answered'; readonly answers: readonly (readonly number[])[] }
  | { readonly kind: 'failed'; readonly message: string };

export interface NodeLlamaCpp extends Contender, Answerer {
  /** What llama.cpp says of itself. */
  readonly device: string;
  close(): Promise<void>;
}

export interface NodeLlamaCppOptions {
  readonly model: string;
  readonly threads: number;
  /** Of each of the sequences that answer a crowd. */
  readonly positions: number;
  /**
   * `as it comes`: it draws the next tokens of a batch on as many threads as libuv has. In 3.21.1 each of them may first put the
   * logits of a mixed batch into order, in place and without a lock (`output_reorder` of llama.cpp), and answers get
   * tokens of others. `in turn`: libuv has one thread, so that what is left is arithmetic.
   */
  readonly sampling: 'as it comes' | 'in turn';
}

/** Why node-llama-cpp cannot run here, with the line that installs it; undefined where it can. */
export function whyNoNodeLlamaCpp(model: string): string | undefined {
  if (!model.endsWith('.gguf')) return 'node-llama-cpp reads .gguf files alone';
  if (!existsSync(new URL('node_modules/node-llama-cpp/package.json', peersFolder)))
    return `node-llama-cpp is not installed (it takes 730 MB): ${INSTALL}`;
  return undefined;
}

/** node-llama-cpp in a process of its own, on the file as it is. */
export async function startNodeLlamaCpp(options: NodeLlamaCppOptions): Promise<NodeLlamaCpp> {
  const { model, threads, positions, sampling } = options;
  const child = fork(fileURLToPath(new URL('node-llama-cpp.mjs', peersFolder)), {
    env: { ...process.env, ...(sampling === 'in turn' && { UV_THREADPOOL_SIZE: '1' }) },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  try {
    await expect(child, 'ready', nextAnswer(child));
    const { version, device } = await ask(child, 'loaded', { kind: 'load', model, threads });
    return {
      name: `node-llama-cpp ${version}${sampling === 'in turn' ? ', sampling in turn' : ''}`,
      kind: 'peer',
      promise: 'none',
      device,
      run: async (workload) => {
        const { prompts, outputTokens } = workload;
        return rateOf(workload, await ask(child, 'ran', { kind: 'run', prompts, outputTokens }));
      },
      answer: async (crowd) => {
        // One position more than is written, as in a run.
        const room = { sequences: MAX_LANES, contextTokens: positions + 1 };
        return (await ask(child, 'answered', { kind: 'answer', crowd, ...room })).answers;
      },
      close: () => end(child),
    };
  } catch (error) {
    await end(child);
    throw error;
  }
}

function ask<Kind extends Answer['kind']>(child: ChildProcess, kind: Kind, message: object) {
  const answer = nextAnswer(child);
  child.send(message);
  return expect(child, kind, answer);
}

async function expect<Kind extends Answer['kind']>(_child: ChildProcess, kind: Kind, coming: Promise<Answer>) {
  const answer = await coming;
  if (answer.kind === 'failed') throw new Error(`node-llama-cpp: ${answer.message}`);
  if (answer.kind !== kind) throw new Error(`node-llama-cpp answered ${answer.kind}, expected ${kind}`);
  return answer as Extract<Answer, { kind: Kind }>;
}

function nextAnswer(child: ChildProcess): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer);
      child.off('message', onMessage);
      child.off('exit', onExit);
      child.off('error', onError);
    };
    const onMessage = (message: unknown) => {
      settle();
      resolve(message as Answer);
    };
    const onExit = (code: number | null, signal: string | null) => {
      settle();
      reject(new Error(`node-llama-cpp's process ended (${signal ?? code})`));
    };
    const onError = (error: Error) => {
      settle();
      reject(error);
    };
    const timer = setTimeout(() => {
      settle();
      child.kill('SIGKILL');
      reject(new Error(`node-llama-cpp's process was silent for ${ANSWER_MS / 1000} seconds`));
    }, ANSWER_MS);
    child.on('message', onMessage);
    child.on('exit', onExit);
    child.on('error', onError);
  });
}

function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    if (child.connected) child.disconnect();
    else child.kill();
  });
}
