import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HubFile {
  readonly bytes: Uint8Array;
  /** Large files are stored elsewhere, and the hub redirects to them. */
  readonly isLarge?: boolean;
}

/** What goes wrong with the answer to one request; `undefined` lets it be right. */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Record<string, string> }
  /** The connection is cut after so many bytes of the body, which is the whole file where ranges are ignored. */
  | { readonly kind: 'drop'; readonly afterBytes: number; readonly ranges?: 'ignored' }
  /** The body ends early, as if it were whole. */
  | { readonly kind: 'truncate'; readonly bytes: number }
  /** Nothing is sent after so many bytes, and the connection stays open. */
  | { readonly kind: 'stall'; readonly afterBytes: number }
  | { readonly kind: 'ignore-range' }
  | { readonly kind: 'corrupt' }
  | { readonly kind: 'body'; readonly body: string; readonly headers?: Record<string, string> };

export interface HubServer extends AsyncDisposable {
  readonly url: string;
  /** Where large files are redirected to: another origin. */
  readonly storeUrl: string;
  readonly commit: string;
  /** `METHOD /path` of all requests, and the headers that matter. */
  readonly requests: { readonly line: string; readonly range?: string; readonly authorization?: string }[];
  /** Decides about each request, by its path. */
  fault: (path: string) => Fault | undefined;
  /** Changes what the list of files says. */
  mapTree: (entries: Record<string, unknown>[]) => unknown;
  /** Entries of one page of the list. */
  pageSize: number;
}

export const REPO = 'tiny-org/tiny.model_1';

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
export const gitSha1 = (bytes: Uint8Array): string =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');

/** The hub's API over one repository, as `@huggingface/hub` calls it, with its file store on another port. */
export async function startHub(
  files: Readonly<Record<string, HubFile>>,
  { token }: { readonly token?: string } = {},
): Promise<HubServer> {
  const commit = randomBytes(20).toString('hex');
  const requests: HubServer['requests'] = [];
  const state = { fault: (_path: string) => undefined, mapTree: (entries: unknown) => entries, pageSize: 1000 };
  const record = (request: IncomingMessage) => {
    const { range, authorization } = request.headers;
    requests.push({
      line: `${request.method} ${request.url}`,
      ...(range !== undefined && { range }),
      ...(authorization !== undefined && { authorization }),
    });
  };
  const store = createServer((request, response) => {
    record(request);
    const name = decodeURIComponent(new URL(request.url!, 'http://x').pathname).replace('/store/', '');
    sendFile(request, response, files[name]!.bytes, server.fault(request.url!), {});
  });
  const hub = createServer((request, response) => {
    record(request);
    const { pathname, searchParams } = new URL(request.url!, 'http://x');
    const fault = server.fault(request.url!);
    if (fault?.kind === 'status') return void response.writeHead(fault.status, fault.headers).end();
    if (fault?.kind === 'body') return void response.writeHead(200, fault.headers).end(fault.body);
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`)
      return sendJson(response, { error: 'Invalid username or password.' }, {}, 401);
    const [, revision] = /^\/api\/models\/tiny-org\/tiny\.model_1\/revision\/(.+)$/.exec(pathname) ?? [];
    if (revision !== undefined) {
      const known = ['main', 'refs/pr/1', commit].includes(decodeURIComponent(revision));
      if (!known) return sendJson(response, { error: 'Invalid rev id' }, { 'X-Error-Code': 'RevisionNotFound' }, 404);
      return sendJson(response, { _id: '1', id: REPO, sha: commit, private: false, gated: false });
    }
    if (pathname === `/api/models/${REPO}/tree/${commit}`) {
      const all = server.mapTree(treeOf(files));
      if (!Array.isArray(all)) return sendJson(response, all);
      const from = Number(searchParams.get('cursor') ?? 0);
      const next = from + server.pageSize;
      const link = `<${server.url}${pathname}?recursive=true&cursor=${next}>; rel="next"`;
      return sendJson(response, all.slice(from, next), next < all.length ? { Link: link } : {});
    }
    const prefix = `/${REPO}/resolve/${commit}/`;
    const name = pathname.startsWith(prefix) ? decodeURIComponent(pathname.slice(prefix.length)) : '';
    const file = files[name];
    if (!file) return sendJson(response, { error: 'Entry not found' }, { 'X-Error-Code': 'EntryNotFound' }, 404);
    const headers = { 'X-Repo-Commit': commit, ETag: `"${gitSha1(file.bytes)}"` };
    if (!file.isLarge) return sendFile(request, response, file.bytes, fault, headers);
    const linked = { 'X-Linked-ETag': `"${sha256(file.bytes)}"`, 'X-Linked-Size': `${file.bytes.length}` };
    const xet = { 'X-Xet-Hash': sha256(file.bytes), Link: `<${server.url}/xet>; rel="xet-auth"` };
    const Location = `${server.storeUrl}/store/${encodeURIComponent(name)}?signature=secret`;
    response.writeHead(302, { ...headers, ...linked, ...xet, Location }).end();
  });
  const [url, storeUrl] = await Promise.all([listen(hub), listen(store)]);
  const server: HubServer = Object.assign(state, {
    ...{ url, storeUrl, commit, requests },
    [Symbol.asyncDispose]: async () => {
      for (const one of [hub, store]) one.closeAllConnections();
      await Promise.all([hub, store].map((one) => new Promise((resolve) => one.close(resolve))));
    },
  });
  return server;
}

function treeOf(files: Readonly<Record<string, HubFile>>): Record<string, unknown>[] {
  const folders = new Set(Object.keys(files).flatMap((path) => (path.includes('/') ? [path.split('/')[0]!] : [])));
  return [
    ...[...folders].map((path) => ({ type: 'directory', path, size: 0, oid: '0'.repeat(40) })),
    ...Object.entries(files).map(([path, { bytes, isLarge }]) => ({
      ...{ type: 'file', path, size: bytes.length, oid: gitSha1(bytes) },
      ...(isLarge && {
        lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 130 },
        xetHash: sha256(bytes).split('').reverse().join(''),
      }),
    })),
  ];
}

function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  bytes: Uint8Array,
  fault: Fault | undefined,
  headers: Record<string, string>,
): void {
  if (fault?.kind === 'status') return void response.writeHead(fault.status, fault.headers).end();
  const ignoresRange = fault?.kind === 'ignore-range' || (fault?.kind === 'drop' && fault.ranges === 'ignored');
  const [, first] = (!ignoresRange && /^bytes=(\d+)-$/.exec(request.headers.range ?? '')) || [];
  const start = Number(first ?? 0);
  if (start > 0 && start >= bytes.length) return void response.writeHead(416).end();
  const body = Buffer.from(bytes.subarray(start));
  if (fault?.kind === 'corrupt' && body.length > 0) body[body.length - 1]! ^= 1;
  const length = fault?.kind === 'truncate' ? Math.min(fault.bytes, body.length) : body.length;
  const range = { 'Content-Range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
  response.writeHead(first === undefined ? 200 : 206, {
    ...headers,
    ...(first !== undefined && range),
    // A chunked body has no length that would tell that it is too short.
    ...(fault?.kind === 'truncate' ? {} : { 'Content-Length': `${length}` }),
  });
  if (fault?.kind === 'drop' || fault?.kind === 'stall') {
    const isDrop = fault.kind === 'drop';
    response.write(body.subarray(0, fault.afterBytes), () => {
      if (isDrop) setTimeout(() => response.destroy(), 5);
    });
    if (fault.afterBytes === 0) response.flushHeaders();
    return;
  }
  response.end(body.subarray(0, length));
}

function sendJson(response: ServerResponse, value: unknown, headers: Record<string, string> = {}, status = 200): void {
  const text = JSON.stringify(value);
  const length = `${Buffer.byteLength(text)}`;
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': length, ...headers }).end(text);
}

function listen(server: ReturnType<typeof createServer>): Promise<string> {
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)),
  );
}
