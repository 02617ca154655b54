import { createHash } from 'node:crypto';
import { type FileSource, fingerprint, javascriptHasher, memorySource } from '@stet/model';
import { nodeHasher } from '@stet/model/node';
import { describe, expect, it } from 'vitest';
import { modelDigest } from '../src/digest/model-digest.js';
import { loadSmallModel as load } from './support/load-small-model.js';
import { jsonBytes, smallConfig, smallModelFiles } from './support/small-model.js';

describe('the digest', () => {
  it('is the same for the same files, however they are hashed and wherever they lie', async () => {
    const { digest } = await load({}, { createHasher: javascriptHasher });
    expect((await load({}, { createHasher: nodeHasher })).digest).toBe(digest);
    expect((await load({ 'README.md': new Uint8Array(3) }, { format: 'q8' })).digest).toBe(digest);
  });

  it('changes with every file that the model is made of', async () => {
    const { digest } = await load();
    const seen = new Set([digest]);
    const weights = smallModelFiles()['model.safetensors']!.slice();
    weights[weights.length - 2]! ^= 1;
    const changes = [
      { 'config.json': jsonBytes({ ...smallConfig(), rms_norm_eps: 1e-6 }) },
      { 'generation_config.json': undefined },
      { 'generation_config.json': jsonBytes({}) },
      { 'tokenizer_config.json': undefined },
      { 'chat_template.jinja': new Uint8Array([0x61]) },
      {
        'tokenizer.json': jsonBytes(
          JSON.parse(new TextDecoder().decode(smallModelFiles()['tokenizer.json']!).replace('<|end|>', '<|END|>')),
        ),
      },
      { 'model.safetensors': weights },
    ];
    for (const change of changes) seen.add((await load(change)).digest);
    expect(seen.size).toBe(changes.length + 1);
  });
});

describe('the digest of GGUF files', () => {
  const digestOf = async (files: Record<string, Uint8Array>) =>
    (await modelDigest(memorySource(files), Object.keys(files), { createHasher: nodeHasher })).hex;
  const [one, other] = [Uint8Array.of(1), Uint8Array.of(2)];

  it('does not change with the name of a file', async () => {
    expect(await digestOf({ 'renamed.gguf': one })).toBe(await digestOf({ 'model.gguf': one }));
  });

  it('changes when two parts change places', async () => {
    const parts = { 'm-00001-of-00002.gguf': one, 'm-00002-of-00002.gguf': other };
    const swapped = { 'm-00001-of-00002.gguf': other, 'm-00002-of-00002.gguf': one };
    expect(await digestOf(swapped)).not.toBe(await digestOf(parts));
  });
});

describe('reading for the digest', () => {
  const chunkBytes = 4 * 2 ** 20;
  const large = () => memorySource({ 'a.bin': new Uint8Array(2 * chunkBytes + 5).fill(7), 'b.bin': new Uint8Array(0) });
  const options = { createHasher: nodeHasher };

  it('is in pieces, of which the next is read while one is hashed', async () => {
    const source = large();
    const ranges: [number, number][] = [];
    let hashed = 0;
    const reading: FileSource = {
      ...source,
      read: (name, start, end) => {
        ranges.push([start, end]);
        expect(start - hashed).toBeLessThanOrEqual(chunkBytes);
        return source.read(name, start, end);
      },
    };
    const hashing = () => {
      const hasher = nodeHasher();
      const update = (bytes: Uint8Array): void => {
        hashed += bytes.length;
        hasher.update(bytes);
      };
      return { ...hasher, update };
    };
    const digest = await modelDigest(reading, ['b.bin', 'a.bin'], { createHasher: hashing });
    expect(ranges).toEqual([
      [0, chunkBytes],
      [chunkBytes, 2 * chunkBytes],
      [2 * chunkBytes, 2 * chunkBytes + 5],
    ]);
    const whole = createHash('sha256')
      .update(new Uint8Array(2 * chunkBytes + 5).fill(7))
      .digest('hex');
    const empty = createHash('sha256').digest('hex');
    const lines = ['stet-model-1', `["a.bin",${2 * chunkBytes + 5},"${whole}"]`, `["b.bin",0,"${empty}"]`];
    expect(digest).toEqual({
      hex: createHash('sha256').update(lines.join('\n')).digest('hex'),
      files: ['a.bin', 'b.bin'],
      bytes: 2 * chunkBytes + 5,
    });
  });

  it('fails as the source fails, and leaves no failure unhandled when it stops early', async () => {
    const source = large();
    const failing: FileSource = {
      ...source,
      read: (name, start, end) => (start > 0 ? Promise.reject(new Error('disk')) : source.read(name, start, end)),
    };
    await expect(modelDigest(failing, ['a.bin'], options)).rejects.toThrow('disk');
    const broken = {
      update: () => {
        throw new Error('hash');
      },
      digest: () => '',
    };
    await expect(modelDigest(failing, ['a.bin'], { createHasher: () => broken })).rejects.toThrow('hash');
  });
});

describe('the fingerprint', () => {
  const parts = async () => {
    const { digest, plan } = await load();
    return { digest, plan, numericsId: 'stet-1', samplerVersion: '1' };
  };

  it('does not depend on the order of keys', async () => {
    const given = await parts();
    const reversed = Object.fromEntries(Object.entries(given.plan).reverse()) as unknown as typeof given.plan;
    expect(fingerprint(given)).toMatch(/^stet1-[0-9a-f]{40}$/);
    expect(fingerprint({ ...given, plan: reversed })).toBe(fingerprint(given));
  });

  it('changes with each of its parts', async () => {
    const given = await parts();
    const [rope] = given.plan.ropes;
    const nudged = {
      ...rope!,
      inverseFrequencies: rope!.inverseFrequencies.map((frequency) => frequency * (1 + 2 ** -52)),
    };
    const all = [
      given,
      { ...given, digest: given.digest.replace(/^./, (digit) => (digit === '0' ? '1' : '0')) },
      { ...given, plan: (await load({}, { format: 'q8' })).plan },
      { ...given, plan: { ...given.plan, ropes: [nudged] } },
      { ...given, numericsId: 'stet-2' },
      { ...given, samplerVersion: '2' },
      { ...given, extra: { build: '1' } },
    ];
    expect(new Set(all.map(fingerprint)).size).toBe(all.length);
  });
});
