import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { loadModel, memorySource, urlSource } from '@stet/model';
import { afterEach, describe, expect, it } from 'vitest';
import { smallModelFiles } from './support/small-model.js';

const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server of files that counts how often each is asked for. */
async function serveFiles(files: Readonly<Record<string, Uint8Array>>) {
  const asked = new Map<string, number>();
  const base = await serve((request, response) => {
    const name = request.url!.slice('/model/'.length);
    asked.set(name, (asked.get(name) ?? 0) + 1);
    const bytes = files[name];
    response.writeHead(bytes ? 200 : 404).end(bytes);
  });
  const urls = Object.fromEntries(Object.keys(files).map((name) => [name, `${base}/model/${name}`]));
  return { base, urls, asked };
}

describe('files of a web server', () => {
  it('are the model that they are anywhere, and each is fetched once', async () => {
    const files = smallModelFiles();
    const { base, urls, asked } = await serveFiles(files);
    const model = await loadModel(urlSource(urls));
    const expected = await loadModel(memorySource(files, `${base}/model`));
    expect(model.name).toBe('model');
    expect(model.digest).toBe(expected.digest);
    for (const spec of model.plan.weights) {
      expect(await model.weights.read(spec)).toEqual(await expected.weights.read(spec));
    }
    expect(asked.size).toBe(Object.keys(files).length);
    expect([...asked.values()].every((count) => count === 1)).toBe(true);
    await model.close();
    await model.close();
  });

  it('come with their progress, and its total where it is known', async () => {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i * 7);
    const base = await serve((request, response) => {
      const packed = request.url === '/packed' ? gzipSync(bytes) : undefined;
      response.writeHead(200, {
        'content-length': (packed ?? bytes).length,
        ...(packed && { 'content-encoding': 'gzip' }),
      });
      response.end(packed ?? bytes);
    });
    const seen: [string, number, number | undefined][] = [];
    const source = urlSource(
      { plain: `${base}/plain`, packed: new URL('packed', base) },
      { onProgress: (...call) => void seen.push(call) },
    );
    expect(Buffer.compare(await source.read('plain', 0, bytes.length), bytes)).toBe(0);
    expect(seen.at(-1)).toEqual(['plain', bytes.length, bytes.length]);
    expect(seen.every(([, done], i) => i === 0 || done > seen[i - 1]![1])).toBe(true);
    expect(Buffer.compare(await source.read('packed', 0, bytes.length), bytes)).toBe(0);
    expect(seen.at(-1)).toEqual(['packed', bytes.length, undefined]);
    await source.close();
  });

  it('give bytes that are the caller’s to change', async () => {
    const { urls } = await serveFiles({ a: Uint8Array.of(1, 2, 3) });
    const source = urlSource(urls);
    (await source.read('a', 0, 3)).fill(9);
    expect(await source.read('a', 1, 3)).toEqual(Uint8Array.of(2, 3));
    expect(await source.size('a')).toBe(3);
    expect(await source.list()).toEqual(['a']);
  });

  it('are refused by name where they are missing', async () => {
    const base = await serve((_, response) => response.writeHead(404).end());
    const source = urlSource({ a: `${base}/model/a` });
    await expect(source.size('a')).rejects.toMatchObject({
      code: 'STET_ERR_MODEL_NOT_FOUND',
      message: `${base}/model/a answers with status 404`,
    });
    await expect(source.read('b', 0, 1)).rejects.toMatchObject({
      code: 'STET_ERR_MODEL_NOT_FOUND',
      message: `${base}/model has no file b`,
    });
  });

  it('can be asked for again after the server failed, broke off or was not there', async () => {
    let turn = 0;
    const base = await serve((_, response) => {
      turn++;
      if (turn === 1) response.writeHead(503).end();
      else if (turn === 2) {
        response.writeHead(200, { 'content-length': 100 });
        response.write('half', () => response.destroy());
      } else response.end('whole');
    });
    const source = urlSource({ a: `${base}/a` });
    await expect(source.size('a')).rejects.toMatchObject({
      code: 'STET_ERR_DOWNLOAD',
      message: expect.stringMatching(/status 503$/),
    });
    await expect(source.size('a')).rejects.toMatchObject({ code: 'STET_ERR_DOWNLOAD' });
    expect(await source.size('a')).toBe(5);
    const nowhere = urlSource({ a: 'http://127.0.0.1:1/a' });
    await expect(nowhere.size('a')).rejects.toMatchObject({ code: 'STET_ERR_DOWNLOAD' });
  });

  it.each(['signal', 'close'] as const)('stop being fetched at once on %s', async (way) => {
    let isGone = () => {};
    const gone = new Promise<void>((resolve) => {
      isGone = resolve;
    });
    let hasBegun = () => {};
    const begun = new Promise<void>((resolve) => {
      hasBegun = resolve;
    });
    const base = await serve((_, response) => {
      response.on('close', isGone);
      response.writeHead(200, { 'content-length': 100 });
      response.write('half', hasBegun);
    });
    const abort = new AbortController();
    const source = urlSource({ a: `${base}/a` }, { signal: abort.signal });
    const size = source.size('a');
    const refused = expect(size).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    await begun;
    if (way === 'signal') abort.abort();
    else await source.close();
    await refused;
    await gone;
  });

  it('are not asked for twice by two readers at once', async () => {
    const { urls, asked } = await serveFiles({ a: Uint8Array.of(1, 2, 3) });
    const source = urlSource(urls);
    await Promise.all([source.size('a'), source.read('a', 0, 1), source.size('a')]);
    expect(asked.get('a')).toBe(1);
  });
});
