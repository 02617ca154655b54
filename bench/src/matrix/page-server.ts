import { createReadStream, existsSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assert } from '@stet/backend';
import { pageFolder } from '../folders.js';

const SCRIPT = 'matrix-page.js';
const HTML = `<!doctype html><meta charset="utf-8"><title>Stet</title><script type="module" src="/${SCRIPT}"></script>`;

/** Serves the page and the files of one model to this machine alone. */
export class PageServer {
  readonly url: string;
  readonly #http: Server;

  private constructor(http: Server) {
    this.#http = http;
    this.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
  }

  /** `files`: names in `folder`; nothing else is served. */
  static async start(folder: string, files: readonly string[]): Promise<PageServer> {
    const script = fileURLToPath(new URL(SCRIPT, pageFolder));
    assert(existsSync(script), `${script} is missing: build bench`);
    const paths = new Map(files.map((file) => [PageServer.modelUrl(file), join(folder, file)]));
    const http = createServer(({ url = '/' }, response) => {
      const path = paths.get(url);
      if (url === '/') response.writeHead(200, { 'content-type': 'text/html' }).end(HTML);
      else if (url === `/${SCRIPT}`) send(response, script, 'text/javascript');
      else if (path !== undefined) send(response, path, 'application/octet-stream');
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve, reject) => {
      http.once('error', reject);
      http.listen(0, '127.0.0.1', resolve);
    });
    return new PageServer(http);
  }

  static modelUrl(file: string): string {
    return `/model/${encodeURIComponent(file)}`;
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#http.close(() => resolve());
    });
  }
}

function send(response: ServerResponse, path: string, type: string): void {
  const stream = createReadStream(path);
  // The page sees that the answer breaks off.
  stream.on('error', () => response.destroy());
  stream.once('open', () => response.writeHead(200, { 'content-type': type }));
  stream.pipe(response);
}
