import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { talesFolder } from '@stet/tales';
import { afterAll, describe, expect, it } from 'vitest';
import * as browser from '../src/node/browser.js';
import { findModel } from '../src/node/find-model.js';
import * as node from '../src/node/index.js';

const root = mkdtempSync(join(tmpdir(), 'stet-paths-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function folderOf(name: string, files: readonly string[]): string {
  const folder = join(root, name);
  mkdirSync(folder, { recursive: true });
  for (const file of files) writeFileSync(join(folder, file), 'x');
  return folder;
}

const notFound = (message: RegExp) => ({ code: 'STET_ERR_MODEL_NOT_FOUND', message: expect.stringMatching(message) });

describe('findModel', () => {
  it('finds a folder with config.json, whatever else is in it', async () => {
    const folder = folderOf('hf', ['config.json', 'a.gguf', 'b.gguf']);
    expect(await findModel(folder)).toEqual({ kind: 'folder', folder });
    expect(await findModel(pathToFileURL(folder))).toEqual({ kind: 'folder', folder });
  });

  it('finds a GGUF file, also behind a link and in a folder of its own', async () => {
    const folder = folderOf('one', ['a.gguf', 'README.md']);
    const place = { kind: 'gguf', folder, file: 'a.gguf' };
    expect(await findModel(join(folder, 'a.gguf'))).toEqual(place);
    expect(await findModel(folder)).toEqual(place);
    const links = folderOf('links', []);
    symlinkSync('../one/a.gguf', join(links, 'b.gguf'));
    expect(await findModel(links)).toEqual({ kind: 'gguf', folder: links, file: 'b.gguf' });
  });

  it('takes the parts of a split model for one, and lists several', async () => {
    const parts = ['m-00002-of-00002.gguf', 'm-00001-of-00002.gguf'];
    const folder = folderOf('split', parts);
    expect(await findModel(folder)).toEqual({ kind: 'gguf', folder, file: 'm-00001-of-00002.gguf' });
    const several = folderOf('several', [...parts, 'z.gguf']);
    await expect(findModel(several)).rejects.toMatchObject(
      notFound(/several models: give the path of one of "m-00001-of-00002\.gguf", "z\.gguf"$/),
    );
    const many = folderOf(
      'many',
      Array.from({ length: 20 }, (_, i) => `${i + 10}.gguf`),
    );
    await expect(findModel(many)).rejects.toMatchObject(notFound(/"17\.gguf" and 12 more$/));
  });

  it('says what it looked for and, of a name that is one on the hub, how to fetch it', async () => {
    await expect(findModel(folderOf('empty', []))).rejects.toMatchObject(
      notFound(/has neither config\.json nor a \.gguf file$/),
    );
    await expect(findModel(join(folderOf('text', ['a.txt']), 'a.txt'))).rejects.toMatchObject(
      notFound(/a\.txt is no model: of single files/),
    );
    await expect(findModel('/nowhere/at/all')).rejects.toMatchObject(
      notFound(/there is no folder or file \/nowhere\/at\/all$/),
    );
    await expect(findModel('org/name:q4.gguf')).rejects.toMatchObject(
      notFound(/`stet pull org\/name:q4\.gguf` fetches/),
    );
    await expect(findModel('bad\0path')).rejects.toMatchObject(notFound(/cannot open/));
  });
});

describe('loadModelPath', () => {
  it('opens a folder, its address, and the embedded model by its name', async () => {
    const digests = new Set<string>();
    for (const path of [talesFolder, talesFolder.pathname, 'tales'] as const) {
      const model = await node.loadModelPath(path);
      digests.add(model.digest);
      if (path === 'tales') expect(model.name).toBe('tales');
      await model.close();
    }
    expect(digests.size).toBe(1);
    await expect(node.loadModelPath('./tales')).rejects.toMatchObject(notFound(/no folder or file .*tales$/));
  });

  it.skipIf(!existsSync('/proc/self/fd'))('leaves no file open when it is aborted or fails', async () => {
    const openFiles = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith(talesFolder.pathname);
        } catch {
          return false;
        }
      }).length;
    for (let reads = 0; ; reads++) {
      const controller = new AbortController();
      let left = reads;
      const createHasher = () => {
        if (left-- === 0) controller.abort();
        return node.nodeHasher();
      };
      const loading = node.loadModelPath('tales', { signal: controller.signal, createHasher });
      const outcome = await loading.catch((error: unknown) => error);
      if (left >= 0) {
        expect(openFiles()).toBeGreaterThan(0);
        await (outcome as Awaited<typeof loading>).close();
        expect(openFiles()).toBe(0);
        expect(reads).toBeGreaterThan(2);
        break;
      }
      expect(outcome).toMatchObject({ code: 'STET_ERR_ABORTED' });
      expect(openFiles()).toBe(0);
    }
  });

  it('is refused in a browser, where every export of the Node entry is there', async () => {
    const sameTypes: typeof node = browser;
    expect(Object.keys(sameTypes).sort()).toEqual(Object.keys(node).sort());
    for (const load of [browser.loadModelPath, browser.loadModelFolder, browser.openFolder])
      await expect(load('models/a')).rejects.toMatchObject({
        code: 'STET_ERR_UNSUPPORTED',
        message: expect.stringContaining('loadModel(urlSource(urls))'),
      });
  });
});
