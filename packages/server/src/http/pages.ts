import { constants } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { extname, join, resolve, sep } from 'node:path';
import { StetError } from '@stet/backend';
import { withReadDeadline } from './read-deadline.js';
import { httpError, type JsonResponse } from './responses.js';
import type { HttpExchange, Route } from './router.js';

/** What metrics and logs call every path of the folder, so that nobody makes names for them. */
const PAGES_PATH = '/{page}';
const INDEX = 'index.html';
const CHUNK_BYTES = 64 * 1024;

/**
 * One name in a path, as it is sent. Nothing is decoded, so there is no second spelling of a name to be checked: what has
 * a percent sign, a backslash, a colon, or begins with a dot is no page.
 */
const PART = /^[A-Za-z0-9_~@-][A-Za-z0-9_~@.-]*$/;

/** Builds put a hash of the content into the names of these, so they never change. */
const HASHED = /^\/assets\/.+-[A-Za-z0-9_-]{8}\.[^/]+$/;

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};
const OTHER_TYPE = 'application/octet-stream';

/**
 * Scripts, styles and pictures of the folder alone, and no frames. A page may connect to any server, because its users may
 * name one; which pages a server answers is that server's matter.
 */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "worker-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  "connect-src 'self' ws: wss: http: https:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The files of a folder at `/`, for whoever asks; a folder's own page is its index.html. */
export class Pages {
  /** `root` is the real path of the folder. */
  private constructor(
    private readonly root: string,
    private readonly slowReaderMs: number,
  ) {}

  /** Rejects with `STET_ERR_UNSUPPORTED` for a folder without an index.html. */
  static async open(folder: string, { slowReaderMs }: { readonly slowReaderMs: number }): Promise<Pages> {
    try {
      const root = await realpath(folder);
      if ((await stat(join(root, INDEX))).isFile()) return new Pages(root, slowReaderMs);
    } catch (cause) {
      throw new StetError('STET_ERR_UNSUPPORTED', `pages: ${folder} has no ${INDEX}`, { cause });
    }
    throw new StetError('STET_ERR_UNSUPPORTED', `pages: the ${INDEX} of ${folder} is no file`);
  }

  /** The route of a path as it was sent, without its query; undefined where the folder has no such file. */
  async find(path: string): Promise<Route | undefined> {
    const file = await this.#locate(path);
    if (file === undefined) return undefined;
    return { method: 'GET', path: PAGES_PATH, access: 'open', handle: (exchange) => this.#send(file, path, exchange) };
  }

  async #locate(path: string): Promise<string | undefined> {
    const parts = path.endsWith('/') ? [...path.split('/').slice(1, -1), INDEX] : path.split('/').slice(1);
    if (!path.startsWith('/') || !parts.every((part) => PART.test(part))) return undefined;
    try {
      // A link may lead out of the folder.
      const file = await realpath(resolve(this.root, ...parts));
      const isInside = file.startsWith(this.root.endsWith(sep) ? this.root : this.root + sep);
      return isInside && (await stat(file)).isFile() ? file : undefined;
    } catch {
      // There is none, or it may not be read: to whoever asks that is the same.
      return undefined;
    }
  }

  async #send(path: string, url: string, { request, response }: HttpExchange): Promise<JsonResponse | undefined> {
    let file: FileHandle;
    try {
      file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    } catch {
      return httpError(404, 'STET_ERR_NOT_FOUND', 'the page is no longer there');
    }
    try {
      const { size, mtimeMs } = await file.stat();
      const tag = `W/"${size.toString(16)}-${Math.trunc(mtimeMs).toString(16)}"`;
      const headers = {
        'Cache-Control': HASHED.test(url) ? 'public, max-age=31536000, immutable' : 'no-cache',
        'Content-Security-Policy': PAGE_POLICY,
        ETag: tag,
      };
      if (isKnown(request.headers['if-none-match'], tag)) {
        response.writeHead(304, headers).end();
        return undefined;
      }
      const type = types[extname(path)] ?? OTHER_TYPE;
      response.writeHead(200, { ...headers, 'Content-Type': type, 'Content-Length': size });
      if (request.method !== 'HEAD') await this.#write(file, size, response);
      await this.#end(response);
    } finally {
      await file.close();
    }
    return undefined;
  }

  /** A file that became shorter meanwhile cannot be answered as it was announced. */
  async #write(file: FileHandle, size: number, response: ServerResponse): Promise<void> {
    for (let sent = 0; sent < size && !response.destroyed; ) {
      const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(Math.min(CHUNK_BYTES, size - sent)) });
      if (bytesRead === 0) {
        response.destroy();
        return;
      }
      sent += bytesRead;
      if (response.write(buffer.subarray(0, bytesRead)) || response.destroyed) continue;
      await withReadDeadline(response, this.slowReaderMs, (resolve) => response.once('drain', resolve));
    }
  }

  async #end(response: ServerResponse): Promise<void> {
    if (response.destroyed) return;
    await withReadDeadline(response, this.slowReaderMs, (resolve) => response.once('finish', resolve).end());
  }
}

/** Whether `If-None-Match` has the tag; weak or strong is the same to it. */
function isKnown(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false;
  const opaque = (one: string) => one.trim().replace(/^W\//, '');
  return header.trim() === '*' || header.split(',').some((one) => opaque(one) === opaque(tag));
}
