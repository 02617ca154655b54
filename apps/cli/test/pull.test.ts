import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fc, test } from '@fast-check/vitest';
import type { StetError } from '@stet/backend';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { findPulled, hubCacheFolder } from '../src/hub/cache.js';
import { HubClient, type HubClientOptions } from '../src/hub/hub-client.js';
import { type PullProgress, pullModel } from '../src/hub/pull.js';
import { isPlainPath, parseRepoSpec } from '../src/hub/repo-spec.js';
import { gitSha1, type HubServer, REPO, sha256, startHub } from './support/hub-server.js';

const root = mkdtempSync(join(tmpdir(), 'stet-pull-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let cacheFolder: string;
let caches = 0;
beforeEach(() => {
  cacheFolder = join(root, `cache-${caches++}`);
});

const text = (value: string) => ({ bytes: new TextEncoder().encode(value) });
const large = (size: number, salt = 1) => ({
  bytes: Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 8) * salt) & 0xff),
  isLarge: true,
});

const MODEL = {
  '.gitattributes': text('*.safetensors filter=lfs'),
  'README.md': text('# tiny'),
  'config.json': text('{"a":1}'),
  'generation_config.json': text('{}'),
  'tokenizer.json': text('{"model":{}}'),
  'tokenizer_config.json': text('{"b":2}'),
  'chat_template.jinja': text('{{ messages }}'),
  'model.safetensors': large(300_000),
  'pytorch_model.bin': large(1000),
  'onnx/model.safetensors': large(1000, 3),
};
const PULLED = [
  'chat_template.jinja',
  'config.json',
  'generation_config.json',
  'model.safetensors',
  'tokenizer.json',
  'tokenizer_config.json',
];

const quick = { maxFailures: 5, firstPauseMs: 1, maxPauseMs: 50 } as const;
const silent: PullProgress = { begin: () => {}, file: () => {}, bytes: () => {} };

function clientOf(server: HubServer, options: Partial<HubClientOptions> = {}): HubClient {
  return new HubClient({ endpoint: server.url, signal: new AbortController().signal, retry: quick, ...options });
}

async function pull(server: HubServer, file?: string, options: Partial<HubClientOptions> & { revision?: string } = {}) {
  const { revision, ...client } = options;
  const spec = { repo: REPO, ...(file !== undefined && { file }) };
  const progress = silent;
  return pullModel(clientOf(server, client), spec, { cacheFolder, progress, ...(revision && { revision }) });
}

const repoFolder = () => join(cacheFolder, 'models--tiny-org--tiny.model_1');
const blobs = () => readdirSync(join(repoFolder(), 'blobs')).sort();

async function refusal(run: Promise<unknown>): Promise<StetError> {
  return run.then(
    () => expect.unreachable('it was not refused'),
    (error: StetError) => error,
  );
}

describe('pull', () => {
  it("fetches what Stet needs into the layout of Python's cache", async () => {
    await using server = await startHub(MODEL);
    server.pageSize = 3;
    const { path, commit } = await pull(server);
    expect(commit).toBe(server.commit);
    expect(path).toBe(join(repoFolder(), 'snapshots', commit));
    expect(readdirSync(path).sort()).toEqual(PULLED);
    expect(readlinkSync(join(path, 'config.json'))).toBe(`../../blobs/${gitSha1(MODEL['config.json'].bytes)}`);
    const weights = MODEL['model.safetensors'].bytes;
    expect(readlinkSync(join(path, 'model.safetensors'))).toBe(`../../blobs/${sha256(weights)}`);
    expect(new Uint8Array(readFileSync(join(path, 'model.safetensors')))).toEqual(weights);
    expect(readFileSync(join(repoFolder(), 'refs', 'main'), 'utf8')).toBe(commit);
    expect(await findPulled({ repo: REPO }, cacheFolder)).toEqual({ path, name: REPO });
  });

  it('fetches nothing twice, and a blob of another size again', async () => {
    await using server = await startHub(MODEL);
    const { path } = await pull(server);
    const fetched = server.requests.length;
    await pull(server);
    expect(server.requests.slice(fetched).filter(({ line }) => line.includes('/resolve/'))).toEqual([]);
    const blob = join(repoFolder(), 'blobs', sha256(MODEL['model.safetensors'].bytes));
    writeFileSync(blob, 'short');
    await pull(server);
    expect(readFileSync(join(path, 'model.safetensors')).length).toBe(300_000);
  });

  it('fetches one file, in a folder too, and all parts of a split one', async () => {
    const files = {
      'q/a-00001-of-00003.gguf': large(100, 1),
      'q/a-00002-of-00003.gguf': large(200, 2),
      'q/a-00003-of-00003.gguf': large(300, 3),
      'q/b.gguf': large(400, 4),
    };
    await using server = await startHub(files);
    const single = await pull(server, 'q/b.gguf');
    expect(readlinkSync(single.path)).toBe(`../../../blobs/${sha256(files['q/b.gguf'].bytes)}`);
    const split = await pull(server, 'q/a-00002-of-00003.gguf');
    expect(split.path).toBe(join(dirname(single.path), 'a-00001-of-00003.gguf'));
    expect(readdirSync(dirname(split.path)).sort()).toEqual(Object.keys(files).map((name) => name.slice(2)));
    expect((await findPulled({ repo: REPO, file: 'q/b.gguf' }, cacheFolder)).path).toBe(single.path);
  });

  it('names the files to choose from where there is no safetensors model', async () => {
    await using ggufs = await startHub({ 'b.gguf': large(10), 'a.gguf': large(10), 'config.json': text('{}') });
    expect((await refusal(pull(ggufs))).message).toMatch(/name one, as in .*:b\.gguf \(there are b\.gguf, a\.gguf\)$/);
    expect((await refusal(pull(ggufs, 'c.gguf'))).message).toMatch(/has no file c\.gguf; there are b\.gguf, a\.gguf$/);
    await using part = await startHub({ 'a-00001-of-00002.gguf': large(10) });
    expect((await refusal(pull(part, 'a-00001-of-00002.gguf'))).message).toMatch(/lacks a-00002-of-00002\.gguf/);
    await using none = await startHub({ 'model.bin': large(10) });
    expect(await refusal(pull(none))).toMatchObject({ code: 'STET_ERR_DOWNLOAD', message: /no model that Stet reads/ });
  });

  it('says that the cache fails where it is no folder', async () => {
    await using server = await startHub(MODEL);
    writeFileSync(cacheFolder, '');
    expect(await refusal(pull(server))).toMatchObject({
      code: 'STET_ERR_DOWNLOAD',
      message: expect.stringMatching(/^the cache fails: ENOTDIR/),
    });
  });

  it('keeps a branch apart from a commit, and refuses an unknown one', async () => {
    await using server = await startHub(MODEL);
    await pull(server, undefined, { revision: server.commit });
    expect(readdirSync(repoFolder()).sort()).toEqual(['blobs', 'snapshots']);
    await pull(server, undefined, { revision: 'refs/pr/1' });
    expect(readFileSync(join(repoFolder(), 'refs/refs/pr/1'), 'utf8')).toBe(server.commit);
    const unknown = await refusal(pull(server, undefined, { revision: 'v2' }));
    expect(unknown).toMatchObject({ code: 'STET_ERR_DOWNLOAD', message: expect.stringContaining('Invalid rev id') });
    expect((await refusal(pull(server, undefined, { revision: '../x' }))).message).toMatch(/names no revision/);
  });

  it('gives the token to the hub alone and shows it nowhere', async () => {
    const token = 'hf_very_secret';
    await using server = await startHub(MODEL, { token });
    await pull(server, undefined, { token });
    const toStore = server.requests.filter(({ line }) => line.includes('/store/'));
    expect(toStore.length).toBeGreaterThan(0);
    for (const { authorization } of toStore) expect(authorization).toBeUndefined();
    for (const bad of [undefined, 'hf_wrong', 'with\nbreak']) {
      const error = await refusal(pull(server, undefined, bad === undefined ? {} : { token: bad }));
      expect(error.code).toBe('STET_ERR_DOWNLOAD');
      expect(`${error.stack} ${JSON.stringify(error)}`).not.toMatch(/hf_wrong|with\nbreak|very_secret/);
    }
    const withUser = () => new HubClient({ endpoint: 'http://me:pass@x/', signal: new AbortController().signal });
    expect(withUser).toThrow(/^HF_ENDPOINT must be/);
  });
});

describe('a pull over a bad network', () => {
  it('tries again after busy servers, and says which status it had in the end', async () => {
    await using server = await startHub(MODEL);
    const seen = new Map<string, number>();
    server.fault = (path) => {
      const count = (seen.get(path) ?? 0) + 1;
      seen.set(path, count);
      const status = [429, 503][count - 1];
      return status ? { kind: 'status', status, headers: { 'Retry-After': '0' } } : undefined;
    };
    await pull(server);
    server.fault = () => ({ kind: 'status', status: 502 });
    expect((await refusal(pull(server))).message).toMatch(/status 502, 5 times in a row$/);
    server.fault = () => ({ kind: 'status', status: 429, headers: { 'Retry-After': '3600' } });
    expect((await refusal(pull(server))).message).toMatch(/status 429 and asks to wait for 3600 s$/);
  });

  it.each([
    [401, /needs a token: set HF_TOKEN/],
    [403, /accept its terms/],
    [404, /the hub has no /],
    [418, /answered with status 418/],
  ])('does not try again after status %i', async (status, message) => {
    await using server = await startHub(MODEL);
    server.fault = (path) => (path.includes('/store/') ? { kind: 'status', status } : undefined);
    const error = await refusal(pull(server));
    expect(error).toMatchObject({ code: 'STET_ERR_DOWNLOAD', message: expect.stringMatching(message) });
    expect(error.message).not.toContain('secret');
    expect(server.requests.filter(({ line }) => line.includes('/store/')).length).toBe(1);
  });

  // The file has 300,000 bytes: one that drops after the last of them has been delivered.
  test.prop([fc.array(fc.integer({ min: 0, max: 299_999 }), { minLength: 1, maxLength: 6 })], { numRuns: 25 })(
    'goes on by ranges after connections that drop anywhere, and has the same bytes',
    async (drops) => {
      cacheFolder = join(root, `cache-${caches++}`);
      await using server = await startHub(MODEL);
      const left = [...drops];
      server.fault = (path) => {
        const afterBytes = path.includes('/store/') ? left.shift() : undefined;
        return afterBytes === undefined ? undefined : { kind: 'drop', afterBytes };
      };
      // Drops without progress add up to a failure; the next pull goes on.
      const { path } = await pull(server).catch(() => pull(server));
      expect(sha256(readFileSync(join(path, 'model.safetensors')))).toBe(sha256(MODEL['model.safetensors'].bytes));
      const ranges = server.requests.filter(({ line, range }) => line.includes('/store/') && range).length;
      const cuts = drops.filter((afterBytes) => afterBytes > 0).length;
      expect(ranges).toBeGreaterThanOrEqual(Math.min(cuts, 1));
      expect(blobs().some((name) => name.endsWith('.incomplete'))).toBe(false);
    },
  );

  it('goes on after bodies that end early, that stall, and that begin again from the start', async () => {
    await using server = await startHub(MODEL);
    const faults = [
      { kind: 'truncate', bytes: 100_000 },
      { kind: 'ignore-range' },
      { kind: 'drop', afterBytes: 50_000 },
      { kind: 'stall', afterBytes: 10 },
    ] as const;
    let next = 0;
    server.fault = (path) => (path.includes('/store/') ? faults[next++] : undefined);
    const { path } = await pull(server, undefined, { stallMs: 200 });
    expect(sha256(readFileSync(join(path, 'model.safetensors')))).toBe(sha256(MODEL['model.safetensors'].bytes));
  });

  it('gives up on a server that begins again for ever', async () => {
    await using server = await startHub(MODEL);
    server.fault = (path) =>
      path.includes('/store/') ? { kind: 'drop', afterBytes: 100_000, ranges: 'ignored' } : undefined;
    expect((await refusal(pull(server))).message).toMatch(/broke off: .*, 5 times in a row$/);
    expect(server.requests.filter(({ line }) => line.includes('/store/')).length).toBeLessThan(12);
    server.fault = (path) => (path.includes('/store/') ? { kind: 'truncate', bytes: 0 } : undefined);
    cacheFolder = join(root, `cache-${caches++}`);
    expect((await refusal(pull(server))).message).toMatch(/ended model\.safetensors at \d+ of 300000 bytes, 5 times/);
  });

  it('deletes a file with a wrong hash, large or small', async () => {
    await using server = await startHub(MODEL);
    for (const [name, hash] of [
      ['config.json', gitSha1(MODEL['config.json'].bytes)],
      ['model.safetensors', sha256(MODEL['model.safetensors'].bytes)],
    ] as const) {
      server.fault = (path) => (path.includes(`/${name}`) ? { kind: 'corrupt' } : undefined);
      const error = await refusal(pull(server));
      expect(error).toMatchObject({ code: 'STET_ERR_DOWNLOAD', message: expect.stringContaining(name) });
      expect(error.message).toContain('was deleted');
      expect(blobs().filter((blob) => blob.startsWith(hash))).toEqual([]);
      await expect(findPulled({ repo: REPO }, cacheFolder)).rejects.toMatchObject({ code: 'STET_ERR_MODEL_NOT_FOUND' });
    }
    server.fault = () => undefined;
    await pull(server);
  });

  it('takes over what an earlier run left, and drops it where it cannot be part of the file', async () => {
    await using server = await startHub(MODEL);
    const { bytes } = MODEL['model.safetensors'];
    const incomplete = join(repoFolder(), 'blobs', `${sha256(bytes)}.incomplete`);
    const leave = (left: Uint8Array) => {
      rmSync(cacheFolder, { recursive: true, force: true });
      mkdirSync(dirname(incomplete), { recursive: true });
      writeFileSync(incomplete, left);
      server.requests.length = 0;
    };
    const ranges = () => server.requests.flatMap(({ line, range }) => (line.includes('/store/') ? [range] : []));
    leave(bytes.subarray(0, 123_456));
    await pull(server);
    expect(ranges()).toEqual(['bytes=123456-']);
    leave(bytes);
    await pull(server);
    expect(ranges()).toEqual([]);
    leave(new Uint8Array(400_000));
    await pull(server);
    expect(ranges()).toEqual([undefined]);
    leave(new Uint8Array(100));
    expect((await refusal(pull(server))).message).toContain('was deleted');
    await pull(server);
  });

  it('may run twice at once on the same files', async () => {
    await using server = await startHub(MODEL);
    let count = 0;
    server.fault = (path) =>
      path.includes('/store/') && count++ < 4
        ? { kind: 'drop', afterBytes: 60_000, ...(count % 2 === 0 && { ranges: 'ignored' }) }
        : undefined;
    const paths = await Promise.all([pull(server), pull(server), pull(server)]);
    expect(new Set(paths.map(({ path }) => path)).size).toBe(1);
    expect(sha256(readFileSync(join(paths[0]!.path, 'model.safetensors')))).toBe(
      sha256(MODEL['model.safetensors'].bytes),
    );
  });

  it('stops at once and leaves what it has for the next', async () => {
    await using server = await startHub(MODEL);
    const controller = new AbortController();
    server.fault = (path) => (path.includes('/store/') ? { kind: 'stall', afterBytes: 200_000 } : undefined);
    const progress = { ...silent, bytes: (done: number) => done > 150_000 && controller.abort() };
    const client = clientOf(server, { signal: controller.signal });
    const stopped = pullModel(client, { repo: REPO }, { cacheFolder, progress });
    expect((await refusal(stopped)).code).toBe('STET_ERR_ABORTED');
    server.fault = () => undefined;
    server.requests.length = 0;
    await pull(server);
    const [{ range } = {}] = server.requests.filter(({ line }) => line.includes('/store/'));
    expect(Number(/^bytes=(\d+)-$/.exec(range!)![1])).toBeGreaterThan(100_000);
  });
});

describe('a hub that lies', () => {
  const hash = 'a'.repeat(40);
  const file = { type: 'file', path: 'config.json', size: 1, oid: hash };

  it.each<[string, unknown, RegExp]>([
    ['an object in place of a list', { error: 'x' }, /something else than its lists/],
    ['an entry that is nothing', [null], /lists undefined/],
    ['a hash that is a path', [{ ...file, oid: '../../x' }], /with the hash "\.\.\/\.\.\/x"/],
    ['a large file whose hash is short', [{ ...file, lfs: { oid: hash, size: 1 } }], /with the hash/],
    ['a size below zero', [{ ...file, size: -1 }], /with -1 bytes/],
    ['a size that is no number', [{ ...file, size: '12' }], /with "12" bytes/],
    ['a size beyond all disks', [{ ...file, size: 2 ** 52 }], /bytes/],
    ['a file twice', [file, file], /twice/],
    [
      'names that leave the folder',
      ['../config.json', '/config.json', 'a\\b', 'C:x'].map((path) => ({ ...file, path })),
      /no model that Stet reads/,
    ],
  ])('is refused for %s', async (_what, tree, message) => {
    await using server = await startHub(MODEL);
    server.mapTree = () => tree;
    const error = await refusal(pull(server));
    expect(error).toMatchObject({ code: 'STET_ERR_DOWNLOAD', message: expect.stringMatching(message) });
  });

  it('cannot send its list to another origin, or one without end', async () => {
    await using server = await startHub(MODEL);
    const isTree = (path: string) => path.includes('/tree/');
    const next = (url: string) => ({ Link: `<${url}>; rel="next"` });
    server.fault = (path) =>
      isTree(path) ? { kind: 'body', body: '[]', headers: next(`${server.storeUrl}/tree/`) } : undefined;
    expect((await refusal(pull(server))).message).toMatch(/points to .* in its list of files/);
    const many = JSON.stringify(Array.from({ length: 30_000 }, (_, i) => ({ ...file, path: `f${i}` })));
    server.fault = (path) =>
      isTree(path)
        ? { kind: 'body', body: many.replaceAll('"f', `"${seen++}f`), headers: next(server.url + path) }
        : undefined;
    let seen = 0;
    expect((await refusal(pull(server))).message).toMatch(/more than 100000 files/);
    const endless = `[${' '.repeat(65 * 2 ** 20)}]`;
    server.fault = (path) => (isTree(path) ? { kind: 'body', body: endless } : undefined);
    expect((await refusal(pull(server))).message).toMatch(/is over 67108864 bytes/);
    server.fault = (path) => (path.includes('/revision/') ? { kind: 'body', body: '{"sha":"../.."}' } : undefined);
    expect((await refusal(pull(server))).message).toMatch(/names no commit/);
  });

  it('cannot send more bytes than it listed', async () => {
    await using server = await startHub(MODEL);
    server.mapTree = (entries) =>
      entries.map((entry) => ({ ...entry, ...(entry.lfs ? { lfs: { ...entry.lfs, size: 1000 } } : {}) }));
    expect((await refusal(pull(server))).message).toMatch(
      /has 300000 bytes for model\.safetensors, the hub lists 1000/,
    );
  });
});

describe('names', () => {
  it('says what can be a repository, and a file in it', () => {
    expect(parseRepoSpec('org/name')).toEqual({ repo: 'org/name' });
    expect(parseRepoSpec('org/na.me-1_x:q/a.gguf')).toEqual({ repo: 'org/na.me-1_x', file: 'q/a.gguf' });
    for (const bad of [
      'name',
      'a/b/c',
      './a',
      '../a',
      'a/..',
      'a/b:',
      'a/b:../c',
      'a/b:/c',
      'a--b/c',
      '-a/b',
      'a/b.',
      'a /b',
      '',
    ])
      expect([bad, parseRepoSpec(bad)]).toEqual([bad, undefined]);
    expect(isPlainPath('a/b.c')).toBe(true);
    for (const bad of ['', 'a//b', 'a/../b', '.', 'a/.', 'a\\b', 'a\nb', 'a ', 'x'.repeat(256), 'a/'.repeat(600)])
      expect([bad, isPlainPath(bad)]).toEqual([bad, false]);
  });

  it("finds the cache where Python's library does", () => {
    expect(hubCacheFolder({ HF_HUB_CACHE: '/a', HF_HOME: '/b' })).toBe('/a');
    expect(hubCacheFolder({ HUGGINGFACE_HUB_CACHE: '/c', HF_HOME: '/b' })).toBe('/c');
    expect(hubCacheFolder({ HF_HOME: '/b', XDG_CACHE_HOME: '/d' })).toBe('/b/hub');
    expect(hubCacheFolder({ XDG_CACHE_HOME: '/d' })).toBe('/d/huggingface/hub');
    expect(hubCacheFolder({})).toMatch(/\/\.cache\/huggingface\/hub$/);
  });
});
