import type { AddressInfo } from 'node:net';
import { type ConnectOptions, connect, type StetClient } from '@stet/client';
import { createServer, type ServerLimits, type StetServer } from '@stet/server';
import { afterEach, expect } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { ScriptedEngine, type ScriptedEngineOptions } from '../../server/test/support/scripted-engine.js';

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

export interface Harness {
  readonly engine: ScriptedEngine;
  readonly server: StetServer;
  readonly client: StetClient;
}

/** A client of a real server over a scripted engine; after the test no request may be left. */
export async function connected(
  engineOptions: ScriptedEngineOptions = {},
  limits: Partial<ServerLimits> = {},
  options: ConnectOptions = {},
): Promise<Harness> {
  const engine = new ScriptedEngine(engineOptions);
  const server = await createServer({ engine, port: 0, limits: { drainMs: 0, closeHandshakeMs: 200, ...limits } });
  const client = await connect(server.url, options);
  cleanups.push(async () => {
    await client.close();
    await server.close();
    expect(engine.stats()).toMatchObject({ running: 0, blocks: { held: 0 } });
  });
  return { engine, server, client };
}

/** A server that speaks WebSocket but says what the test wants. */
export async function fakeServer(onSocket: (socket: WebSocket) => void): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  server.on('connection', onSocket);
  await new Promise((resolve) => server.once('listening', resolve));
  cleanups.push(async () => {
    for (const socket of server.clients) socket.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export async function waitFor(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
