import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from '@stet/server';
import { afterAll, describe, expect, it } from 'vitest';
import { newApiKey } from '../src/auth/keys.js';
import { serve, waitFor } from './support/harness.js';
import { parseAnswers, RawConnection } from './support/raw-http.js';
import { ScriptedEngine } from './support/scripted-engine.js';

const parent = mkdtempSync(join(tmpdir(), 'stet-pages-'));
afterAll(() => rmSync(parent, { recursive: true, force: true }));
const pages = join(parent, 'site');
const LARGE_BYTES = 24 * 2 ** 20;
mkdirSync(join(pages, 'assets'), { recursive: true });
mkdirSync(join(pages, 'empty'));
mkdirSync(join(pages, '.git'));
mkdirSync(join(parent, 'site-beside'));
for (const [name, text] of [
  ['site/index.html', '<!doctype html><title>pages</title>'],
  ['site/assets/main-DK1x_-aB.js', 'export {};'],
  ['site/assets/plain.css', 'body{}'],
  ['site/health', 'not the route'],
  ['site/.env', 'SECRET'],
  ['site/.git/config', 'SECRET'],
  ['site/a b.txt', 'SECRET'],
  ['secret.txt', 'SECRET'],
  ['site-beside/secret.txt', 'SECRET'],
] as const)
  writeFileSync(join(parent, name), text);
writeFileSync(join(pages, 'large.bin'), Buffer.alloc(LARGE_BYTES, 7));
symlinkSync('../secret.txt', join(pages, 'link.txt'));
symlinkSync('../site-beside', join(pages, 'beside'));
symlinkSync('index.html', join(pages, 'alias.html'));

describe('the pages of a server', () => {
  it('are files with their types, tags and policies', async () => {
    const { server, logged } = await serve({}, {}, { pages });
    const index = await fetch(`${server.url}/?backend=server`);
    expect([index.status, await index.text()]).toEqual([200, '<!doctype html><title>pages</title>']);
    expect(Object.fromEntries(index.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-length': '35',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'; .*connect-src 'self' ws: wss: http: https:; .*frame-ancestors 'none'$/,
      ),
      'x-request-id': expect.any(String),
    });
    const script = await fetch(`${server.url}/assets/main-DK1x_-aB.js`);
    expect([script.status, script.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8']);
    expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    const style = await fetch(`${server.url}/assets/plain.css`);
    expect([style.headers.get('content-type'), style.headers.get('cache-control')]).toEqual([
      'text/css; charset=utf-8',
      'no-cache',
    ]);
    expect((await fetch(`${server.url}/alias.html`)).status).toBe(200);
    const large = await fetch(`${server.url}/large.bin`);
    expect(large.headers.get('content-type')).toBe('application/octet-stream');
    expect(Buffer.from(await large.arrayBuffer()).equals(Buffer.alloc(LARGE_BYTES, 7))).toBe(true);
    // They are counted, not logged.
    expect(logged.filter(({ message }) => message === 'request answered')).toEqual([]);
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    expect(metrics).toMatch(/^stet_http_requests_total\{route="\/\{page\}",method="GET",status="200"\} 5$/m);
    expect(metrics).not.toContain('plain.css');
  });

  it('are not sent again to whoever has them, until they change', async () => {
    const { server } = await serve({}, {}, { pages });
    const get = (tag: string) => fetch(`${server.url}/assets/plain.css`, { headers: { 'if-none-match': tag } });
    const first = await get('"other"');
    const tag = first.headers.get('etag')!;
    expect([first.status, await first.text()]).toEqual([200, 'body{}']);
    for (const known of [tag, tag.replace('W/', ''), `"a", ${tag}`, '*']) {
      const again = await get(known);
      expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
    }
    utimesSync(join(pages, 'assets/plain.css'), 1, 1);
    expect((await get(tag)).status).toBe(200);
  });

  it('answer HEAD, OPTIONS and nothing else', async () => {
    const { server } = await serve({}, {}, { pages });
    const head = await fetch(`${server.url}/index.html`, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '35', '']);
    const options = await fetch(`${server.url}/`, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS']);
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const refused = await fetch(`${server.url}/`, { method });
      expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
      expect((await fetch(`${server.url}/none.html`, { method })).status).toBe(404);
    }
  });

  it('leave the routes of the protocol what they are', async () => {
    const { server } = await serve({}, {}, { pages });
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({ status: 'ok' });
    expect((await fetch(`${server.url}/v1/stream`)).status).toBe(426);
    for (const path of ['/v1', '/v1/none', '/none', '/assets', '/assets/', '/empty/', '/index.html/']) {
      const response = await fetch(server.url + path);
      expect([path, response.status]).toEqual([path, 404]);
      expect(await response.json()).toMatchObject({ error: { code: 'STET_ERR_NOT_FOUND' } });
    }
    const document = await (await fetch(`${server.url}/openapi.json`)).json();
    expect(Object.keys((document as { paths: object }).paths)).not.toContain('/{page}');
  });

  it.each([
    '/../secret.txt',
    '/assets/../../secret.txt',
    '/..%2fsecret.txt',
    '/%2e%2e/secret.txt',
    '/%2e%2e%2fsecret.txt',
    '/..%252fsecret.txt',
    '/..\\secret.txt',
    '/..%5csecret.txt',
    '/assets\\..\\..\\secret.txt',
    '/..%c0%afsecret.txt',
    '/../site-beside/secret.txt',
    '//secret.txt',
    '///etc/passwd',
    '/%2fetc/passwd',
    '/etc/passwd',
    'http://localhost/../secret.txt',
    'file:///etc/passwd',
    '/.env',
    '/%2eenv',
    '/.git/config',
    '/a b.txt',
    '/a%20b.txt',
    '/index.html%00.txt',
    '/index.html\0',
    '/link.txt',
    '/beside/secret.txt',
    '/./index.html',
    '/assets//plain.css',
    `/${'a'.repeat(300)}`,
    '*',
  ])('have nothing at %j', async (path) => {
    const { server } = await serve({}, {}, { pages });
    const connection = await RawConnection.open(server.url);
    connection.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    const received = await connection.all();
    expect(received).not.toMatch(/SECRET|root:/);
    expect([400, 404]).toContain(parseAnswers(received)[0]!.status);
  });

  it('need no key, and give none away', async () => {
    const { key, sha256 } = newApiKey();
    const { server } = await serve({}, {}, { pages, keys: [{ name: 'alice', sha256 }] });
    expect((await fetch(`${server.url}/`)).status).toBe(200);
    expect((await fetch(`${server.url}/v1/tickets`, { method: 'POST' })).status).toBe(401);
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${server.url}/`, { headers })).status).toBe(200);
    expect((await fetch(`${server.url}/`, { headers: { origin: 'https://example.org' } })).status).toBe(403);
  });

  it('are given up where nobody reads them', async () => {
    const { server } = await serve({}, { slowReaderMs: 100 }, { pages });
    const connection = await RawConnection.open(server.url);
    connection.socket.pause();
    connection.write('GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await new Promise<void>((resolve) => setTimeout(resolve, 500));
    connection.socket.resume();
    expect((await connection.all()).length).toBeLessThan(LARGE_BYTES);
  });

  it('break off where the file became shorter than was said', async () => {
    const path = join(pages, 'shrinking.bin');
    writeFileSync(path, Buffer.alloc(LARGE_BYTES));
    const { server } = await serve({}, {}, { pages });
    const connection = await RawConnection.open(server.url);
    connection.write('GET /shrinking.bin HTTP/1.1\r\nHost: localhost\r\n\r\n');
    connection.socket.once('data', () => connection.socket.pause());
    await waitFor(() => connection.received.length > 0, 'a beginning');
    truncateSync(path, 1);
    connection.socket.resume();
    expect((await connection.all()).length).toBeLessThan(LARGE_BYTES);
  });

  it('are refused at once where the folder has no index.html', async () => {
    const engine = new ScriptedEngine();
    for (const folder of [join(parent, 'none'), join(pages, 'empty')])
      await expect(createServer({ engine, port: 0, pages: folder })).rejects.toMatchObject({
        code: 'STET_ERR_UNSUPPORTED',
        message: `pages: ${folder} has no index.html`,
      });
    mkdirSync(join(parent, 'odd', 'index.html'), { recursive: true });
    await expect(createServer({ engine, port: 0, pages: join(parent, 'odd') })).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining('is no file'),
    });
  });
});
