import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, preview } from 'vite';

export interface ServedPage extends AsyncDisposable {
  readonly port: number;
}

/** The page as it is published: built from sources and served from this machine, at a port that is free, also under `host`. */
export async function servePage(host: string): Promise<ServedPage> {
  const configFile = fileURLToPath(new URL('../../vite.config.ts', import.meta.url));
  const outDir = await mkdtemp(join(tmpdir(), 'stet-playground-'));
  const common = { configFile, logLevel: 'error', build: { outDir, emptyOutDir: true, sourcemap: false } } as const;
  await build(common);
  const server = await preview({ ...common, preview: { host: '127.0.0.1', port: 0, allowedHosts: [host] } });
  const address = server.httpServer.address();
  if (address === null || typeof address === 'string') throw new Error('the preview server has no port');
  return {
    port: address.port,
    [Symbol.asyncDispose]: async () => {
      await server.close();
      await rm(outDir, { recursive: true, force: true });
    },
  };
}
