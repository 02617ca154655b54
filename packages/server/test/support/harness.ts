import { createServer, type ServerLimits, type ServerOptions, type StetServer } from '@stet/server';
import { afterEach, expect } from 'vitest';
import { ScriptedEngine, type ScriptedEngineOptions } from './scripted-engine.js';
import { TestSocket } from './test-socket.js';

export interface Harness {
  readonly engine: ScriptedEngine;
  readonly server: StetServer;
  readonly logged: { fields: Record<string, unknown>; message: string }[];
  connect(protocols?: string | string[], options?: object): Promise<TestSocket>;
  /** Waits until no request runs and every block is free, and fails if that takes too long. */
  idle(): Promise<void>;
}

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/**
 * A server over a scripted engine, which keeps no streams unless `resumeWindowMs` says so; closed after the test, which
 * then fails if a request, a socket or a stream is left.
 */
export async function serve(
  engineOptions: ScriptedEngineOptions = {},
  limits: Partial<ServerLimits> = {},
  serverOptions: Pick<ServerOptions, 'allowedOrigins' | 'host' | 'keys' | 'pages'> = {},
): Promise<Harness> {
  const engine = new ScriptedEngine(engineOptions);
  const logged: Harness['logged'] = [];
  const log = (fields: Record<string, unknown>, message: string) => void logged.push({ fields, message });
  const logger = { info: log, warn: log, error: log };
  const all = { drainMs: 0, closeHandshakeMs: 200, resumeWindowMs: 0, ...limits };
  const server = await createServer({ engine, port: 0, limits: all, logger, ...serverOptions });
  const sockets: TestSocket[] = [];
  cleanups.push(async () => {
    await server.close();
    for (const { violation } of sockets) expect(violation).toBeUndefined();
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
    expect(server.stats()).toEqual({ sockets: 0, streams: 0, unsentBytes: 0, detachedStreams: 0, keptBytes: 0 });
  });
  return {
    engine,
    server,
    logged,
    connect: async (protocols, options) => {
      const socket = await TestSocket.connect(server.url, protocols, options);
      sockets.push(socket);
      return socket;
    },
    idle: () => waitFor(() => engine.stats().running === 0 && engine.stats().blocks.held === 0, 'an idle engine'),
  };
}

export async function waitFor(condition: () => boolean, what: string, timeoutMs = 10_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
