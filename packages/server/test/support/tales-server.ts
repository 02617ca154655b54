import type { BackendFactory } from '@stet/backend';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { createEngine, type StetEngine } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { dvr } from '@stet/scheduler';
import { createServer, type ServerOptions, type StetServer } from '@stet/server';
import { talesFolder, talesName } from '@stet/tales';
import OpenAI, { type ClientOptions } from 'openai';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { waitFor } from './harness.js';

const cpu = cpuFeatures();

const backend: BackendFactory = cpu.available ? createCpuBackend({ threads: 2 }) : createReferenceBackend;
/** For the titles of tests. */
export const backendName = cpu.available
  ? 'the CPU backend'
  : `the reference backend, because the CPU backend is missing: ${cpu.reason}`;
/** The reference is slow, so it writes less. */
export const scale = cpu.available ? 1 : 0.2;

/** The embedded model behind servers, one for each set of options; a chat is told as one story. */
export interface TalesServers {
  readonly engine: StetEngine;
  /** The one with default options. */
  readonly server: StetServer;
  /** A client of the real package, which tries nothing twice unless told to. */
  client(options?: ClientOptions): OpenAI;
  serve(options: Partial<ServerOptions>): Promise<StetServer>;
}

/** To be called at the top of a file. After each test nothing may run and no block may be held. */
export function talesServers(): TalesServers {
  let engine: StetEngine | undefined;
  const servers: StetServer[] = [];
  const serve = async (options: Partial<ServerOptions>) => {
    const server = await createServer({ engine: engine!, port: 0, limits: { drainMs: 0 }, ...options });
    servers.push(server);
    return server;
  };
  beforeAll(async () => {
    const model = await loadModelFolder(talesFolder, { name: talesName });
    const render = ({ messages }: { messages: readonly { content: unknown }[] }) =>
      messages.map(({ content }) => content).join(' ');
    engine = await createEngine({
      model: { ...model, chatTemplate: { sources: new Map(), render } },
      backend,
      policy: dvr(),
      kv: { blockCount: 600 },
    });
    await serve({});
  }, 120_000);
  afterEach(async () => {
    await waitFor(() => servers[0]!.stats().streams === 0, 'an idle server', 60_000);
    expect(engine!.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
    for (const server of servers.splice(1)) await server.close();
  });
  afterAll(async () => {
    for (const server of servers) await server.close();
    await engine?.close();
  });
  return {
    get engine() {
      return engine!;
    },
    get server() {
      return servers[0]!;
    },
    serve,
    client: (options) => openAiClient(servers[0]!.url, options),
  };
}

export function openAiClient(url: string, options: ClientOptions = {}): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, ...options });
}
