import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, preview } from 'vite';

const configFile = fileURLToPath(new URL('../../vite.config.ts', import.meta.url));

/** A folder with the page as it is published, built from sources. */
export interface BuiltPage extends AsyncDisposable {
  readonly folder: string;
}

export interface ServedPage extends AsyncDisposable {
  readonly port: number;
}

export async function buildPage(): Promise<BuiltPage> {
  const folder = await mkdtemp(join(tmpdir(), 'stet-playground-'));
  await build({ configFile, logLevel: 'error', build: { outDir: folder, emptyOutDir: true, sourcemap: false } });
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

/** The page as a plain web server of this machine serves it, at a port that is free, also under `host`. */
export async function servePage(host: string): Promise<ServedPage> {
  const page = await buildPage();
  const server = await preview({
    configFile,
    logLevel: 'error',
    build: { outDir: page.folder },
    preview: { host: '127.0.0.1', port: 0, allowedHosts: [host] },
  });
  const address = server.httpServer.address();
  if (address === null || typeof address === 'string') throw new Error('the preview server has no port');
  return {
    port: address.port,
    [Symbol.asyncDispose]: async () => {
      await server.close();
      await page[Symbol.asyncDispose]();
    },
  };
}
