import { createServer as createHttpServer, type Server as HttpServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { createEngine, dvr, type StetEngine } from '@stet/engine';
import { createReferenceBackend } from '@stet/reference';
import { createServer, type StetServer } from '@stet/server';
import type { TestProject } from 'vitest/node';
import { Relay } from './relay.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a page asks for servers, see `Controls`. */
    readonly stetControls: string;
  }
}

/** What a page may ask for; each is a POST to its name, answered in JSON. */
interface Controls {
  /** The address of a server of the embedded model, which is started when it is first asked for. */
  start(): Promise<string>;
  /** That of one which takes no page of this machine. */
  startElsewhere(): Promise<string>;
  /** Breaks every connection to `start`'s server, as a network does. */
  cut(): Promise<number>;
  /** Requests that run and K/V blocks that they hold. */
  load(): Promise<{ readonly running: number; readonly held: number }>;
}

/** Set up once for all tests in pages; nothing is loaded before a page asks. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const host = new PageHost();
  const http = createHttpServer((request, response) => {
    answer(host, request).then(
      (value) => response.setHeader('access-control-allow-origin', '*').end(JSON.stringify(value)),
      (error) => response.writeHead(500, { 'access-control-allow-origin': '*' }).end(String(error)),
    );
  });
  project.provide('stetControls', `http://127.0.0.1:${await listen(http)}`);
  return async () => {
    http.closeAllConnections();
    http.close();
    await host.close();
  };
}

async function answer(host: Controls, { method, url = '/' }: IncomingMessage): Promise<unknown> {
  const name = url.slice(1);
  switch (name) {
    case 'start':
    case 'startElsewhere':
    case 'cut':
    case 'load':
      if (method === 'POST') return host[name]();
  }
  throw new Error(`there is no ${method} ${url}`);
}

class PageHost implements Controls {
  #engine: Promise<StetEngine> | undefined;
  #server: Promise<StetServer> | undefined;
  #elsewhere: Promise<StetServer> | undefined;
  #relay: Promise<Relay> | undefined;

  async start(): Promise<string> {
    this.#server ??= this.#serve();
    this.#relay ??= this.#server.then(({ url }) => Relay.to(Number(new URL(url).port)));
    return (await this.#relay).url;
  }

  async startElsewhere(): Promise<string> {
    this.#elsewhere ??= this.#serve(['https://example.org']);
    return (await this.#elsewhere).url;
  }

  async cut(): Promise<number> {
    return (await this.#relay)?.cut() ?? 0;
  }

  async load(): Promise<{ running: number; held: number }> {
    const { running, blocks } = (await this.#openEngine()).stats();
    return { running, held: blocks.held };
  }

  async close(): Promise<void> {
    (await this.#relay)?.close();
    for (const server of [this.#server, this.#elsewhere]) await (await server)?.close();
    await (await this.#engine)?.close();
  }

  async #serve(allowedOrigins?: readonly string[]): Promise<StetServer> {
    // What a test leaves behind is gone before the next one is done waiting for it.
    const limits = { drainMs: 0, closeHandshakeMs: 200, resumeWindowMs: 3_000 };
    return createServer({
      engine: await this.#openEngine(),
      port: 0,
      limits,
      ...(allowedOrigins && { allowedOrigins }),
    });
  }

  #openEngine(): Promise<StetEngine> {
    const backend = cpuFeatures().available ? createCpuBackend({ threads: 1 }) : createReferenceBackend;
    // Verified in windows even where that saves nothing, so that there are candidates to show.
    const policy = dvr({ windowTokens: 6 });
    this.#engine ??= createEngine({ model: 'tales', backend, format: 'bf16', policy, kv: { blockCount: 256 } });
    return this.#engine;
  }
}

async function listen(server: HttpServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
