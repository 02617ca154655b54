import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { connect } from '@stet/client';
import { build, type Rolldown } from 'vite';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { connected } from './harness.js';

describe('a bundle of the client for browsers', () => {
  it('is small, and holds neither a Node module nor a schema library', async () => {
    const modules: string[] = [];
    const outputs = await build({
      root: fileURLToPath(new URL('..', import.meta.url)),
      configFile: false,
      logLevel: 'silent',
      resolve: { conditions: ['@stet/source', 'browser', 'module', 'import', 'default'] },
      build: { write: false, lib: { entry: 'src/index.ts', formats: ['es'] } },
      plugins: [{ name: 'list', moduleParsed: ({ id }) => void modules.push(id) }],
    });
    expect(modules.some((id) => id.endsWith('client/src/client.ts'))).toBe(true);
    expect(
      modules.filter((id) => /^node:|node_modules|vite-browser-external|packages\/(server|engine)/.test(id)),
    ).toEqual(modules.filter((id) => id.includes('node_modules/@noble/hashes/')));
    const chunks = (outputs as Rolldown.RolldownOutput[]).flatMap(({ output }) => output);
    const code = chunks.map((chunk) => (chunk.type === 'chunk' ? chunk.code : '')).join('');
    expect(code).toContain('stet.v1');
    // Of which a quarter is SHA-256, and a quarter the sentences that go with error codes.
    expect(gzipSync(code).length).toBeLessThan(16 * 1024);
  });
});

describe('the WebSocket of the platform', () => {
  const platform = globalThis as { WebSocket?: unknown };
  const before = platform.WebSocket;
  afterEach(() => {
    platform.WebSocket = before;
  });

  it('is used where there is one', async () => {
    const { server } = await connected();
    let used = 0;
    platform.WebSocket = class extends WebSocket {
      constructor(url: string, protocols: string | string[]) {
        super(url, protocols);
        used++;
      }
    };
    await using client = await connect(server.url);
    expect(await client.ping()).toBeGreaterThan(0);
    expect(used).toBe(1);
  });
});
