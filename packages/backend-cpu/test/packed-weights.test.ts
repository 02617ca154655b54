import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BackendLoad, WeightSource } from '@stet/backend';
import { type ConformanceModel, conformanceModels, expectEqualBits } from '@stet/backend/conformance';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { requireAddon } from '../src/addon.js';
import { type CpuOptions, createCpuBackend, liveBytes, type PackedOutcome, packedWeightsFile } from '../src/index.js';
import { loadNative } from '../src/load.js';
import { isaNumber } from '../src/options.js';
import { packingId } from '../src/packed/packing.js';
import { promptBatch } from './support/long-step.js';
import { isas, withoutAddon } from './support/machine.js';
import { xxh64 } from './support/xxh64.js';

const models = conformanceModels();
const [model] = models;
const sizes = { blockSize: 16, blockCount: 20, maxRows: 64 };
/** Of the image in a file: its header is shorter than this here. */
const IMAGE_AT = 64 * 1024;

const unread: WeightSource = { read: () => Promise.reject(new Error('a weight was read')) };

const root = mkdtempSync(join(tmpdir(), 'stet-packed-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folder: string;
let count = 0;

interface Answer {
  readonly logits: Float32Array;
  readonly weightBytes: number;
  readonly outcomes: readonly PackedOutcome[];
}

function loadOf({ plan, weights, name }: ConformanceModel): BackendLoad {
  return { plan, weights, weightsKey: createHash('sha256').update(name).digest('hex'), ...sizes };
}

/** Loads with files, answers on both schedules, closes. */
async function answer(load: BackendLoad, options: CpuOptions = {}, maxBytes?: number): Promise<Answer> {
  const outcomes: PackedOutcome[] = [];
  const packedWeights = {
    folder,
    ...(maxBytes !== undefined && { maxBytes }),
    onOutcome: (outcome: PackedOutcome) => outcomes.push(outcome),
  };
  return { ...(await bare(load, { packedWeights, ...options })), outcomes };
}

async function bare(load: BackendLoad, options: CpuOptions): Promise<Omit<Answer, 'outcomes'>> {
  const backend = await createCpuBackend({ threads: 2, selfTest: false, ...options })(load);
  const { memory } = backend.info;
  expect(liveBytes()).toBe(memory.weightBytes + memory.kvBytes + memory.scratchBytes);
  const prompt = promptBatch(40);
  const batch = { ...prompt, tokens: prompt.tokens.map((token) => token % load.plan.vocabSize) };
  const result = await backend.forward({
    fast: { ...batch, blocks: batch.blocks.map((b) => b + 3) },
    canonical: batch,
  });
  const logits = Float32Array.of(...result.canonical!.logits, ...result.fast!.logits);
  await backend.close();
  expect(liveBytes()).toBe(0);
  return { logits, weightBytes: memory.weightBytes };
}

function onlyFile(): string {
  const names = readdirSync(folder);
  expect(names).toHaveLength(1);
  return join(folder, names[0]);
}

function flipBit(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] ^= 0x10;
  chmodSync(path, 0o600);
  const file = openSync(path, 'r+');
  writeSync(file, bytes, at, 1, at);
  closeSync(file);
}

describe.skipIf(withoutAddon)('packed weights in a file', () => {
  beforeEach(() => {
    folder = join(root, `${++count}`, 'packed');
  });
  afterEach(() => expect(liveBytes()).toBe(0));

  it.each(isas.flatMap((isa) => models.map((each) => [each.name, isa, each] as const)))(
    'give %s the same bits on %s, and are made from the source only once',
    async (_, isa, each) => {
      const load = loadOf(each);
      const alone = await bare(load, { isa });
      const first = await answer(load, { isa });
      const second = await answer({ ...load, weights: unread }, { isa });
      const path = onlyFile();
      const bytes = statSync(path).size;
      expect(first.outcomes).toEqual([{ kind: 'written', path, bytes }]);
      expect(second.outcomes).toEqual([{ kind: 'read', path, bytes }]);
      expectEqualBits(first.logits, alone.logits, 'written');
      expectEqualBits(second.logits, alone.logits, 'read');
      expect([first.weightBytes, second.weightBytes]).toEqual([alone.weightBytes, alone.weightBytes]);
    },
  );

  it('say that all is loaded where they are read', async () => {
    await answer(loadOf(model));
    const calls: number[][] = [];
    await answer({ ...loadOf(model), weights: unread, onProgress: (done, total) => calls.push([done, total]) });
    const total = model.plan.weights.length;
    expect(calls).toEqual([[total, total]]);
  });

  it('lie under checksums that follow their published definition', async () => {
    const text = (words: string): Uint8Array => new TextEncoder().encode(words);
    expect(xxh64(text(''))).toBe(0xef46db3751d8e999n);
    expect(xxh64(text('abc'))).toBe(0x44bc2cf5ad770999n);
    await answer(loadOf(model));
    const file = readFileSync(onlyFile());
    const contentBytes = file.readUInt32LE(48);
    expect(file.length - IMAGE_AT).toBeLessThan(2 ** 20);
    expect(file.readBigUInt64LE(52 + contentBytes)).toBe(xxh64(file.subarray(IMAGE_AT)));
  });

  it.each<[string, (path: string) => void, string]>([
    ['magic', (path) => flipBit(path, 0), 'header'],
    ['version', (path) => flipBit(path, 8), 'header'],
    ['digest', (path) => flipBit(path, 20), 'header'],
    ['key', (path) => flipBit(path, 60), 'header'],
    ['checksums', (path) => flipBit(path, 52 + readFileSync(path).readUInt32LE(48)), 'header'],
    ['padding', (path) => flipBit(path, IMAGE_AT - 1), 'header'],
    ['first byte', (path) => flipBit(path, IMAGE_AT), 'weights'],
    ['middle', (path) => flipBit(path, (IMAGE_AT + statSync(path).size) >> 1), 'weights'],
    ['last byte', (path) => flipBit(path, statSync(path).size - 1), 'weights'],
    ['end, which is missing,', (path) => resize(path, statSync(path).size - 1), 'bytes, expected'],
    ['end, which is not the last,', (path) => resize(path, statSync(path).size + 1), 'bytes, expected'],
    ['content, which is none,', (path) => resize(path, 0), 'bytes, expected'],
    ['permissions, which let others write,', (path) => chmodSync(path, 0o606), 'others may write'],
    ['kind, which is a link,', (path) => becomeLink(path), 'ELOOP'],
  ])('are never used from a file with a wrong %s but written anew', async (_, harm, reason) => {
    const good = await answer(loadOf(model));
    const path = onlyFile();
    harm(path);
    const anew = await answer(loadOf(model));
    expect(anew.outcomes).toMatchObject([{ kind: 'written', replaced: expect.stringContaining(reason) }]);
    expectEqualBits(anew.logits, good.logits, 'written anew');
    const again = await answer({ ...loadOf(model), weights: unread });
    expect(again.outcomes).toMatchObject([{ kind: 'read' }]);
    expectEqualBits(again.logits, good.logits, 'read again');
  });

  it('are not those of another load, whatever the file is called', async () => {
    const load = loadOf(model);
    await answer(load);
    const path = onlyFile();
    const other = { ...load, weightsKey: 'another' };
    await answer(other);
    const otherPath = readdirSync(folder)
      .map((name) => join(folder, name))
      .find((each) => each !== path)!;
    rmSync(otherPath);
    copyFileSync(path, otherPath);
    expect((await answer(other)).outcomes).toMatchObject([
      { kind: 'written', path: otherPath, replaced: expect.stringContaining('of another load') },
    ]);
  });

  it('have one file where kernels pack alike, and another one where they do not', () => {
    const addon = requireAddon();
    const ids = isas.map((isa) => packingId(addon, isaNumber[isa], ['bf16']));
    expect(new Set(ids).size).toBe(1);
    const [id] = ids;
    const changed = {
      ...addon,
      opPack: (...args: Parameters<typeof addon.opPack>) => {
        const packed = addon.opPack(...args);
        packed[packed.length - 1] ^= 1;
        return packed;
      },
    };
    expect(packingId(changed, isaNumber.scalar, ['bf16'])).not.toBe(id);
    expect(packingId(addon, isaNumber.scalar, ['bf16', 'q8'])).not.toBe(id);
  });

  it('stay in memory, and the load succeeds, where no file can be written', async () => {
    const good = await answer(loadOf(model));
    mkdirSync(join(root, 'plain'), { recursive: true });
    writeFileSync(join(root, 'plain', 'file'), '');
    folder = join(root, 'plain', 'file', 'packed');
    const { logits, outcomes } = await answer(loadOf(model));
    expect(outcomes).toMatchObject([{ kind: 'skipped', reason: expect.stringContaining('ENOTDIR') }]);
    expectEqualBits(logits, good.logits, 'without a file');
  });

  it('stay in memory where something else has the name of their file', async () => {
    const { logits } = await answer(loadOf(model));
    const path = onlyFile();
    rmSync(path);
    mkdirSync(path);
    const anew = await answer(loadOf(model));
    expect(anew.outcomes).toMatchObject([{ kind: 'skipped', reason: expect.stringContaining('it is no file') }]);
    expectEqualBits(anew.logits, logits, 'without a file');
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('stay in memory where the load does not say what they are', async () => {
    const { weightsKey: _, ...load } = loadOf(model);
    expect((await answer(load)).outcomes).toMatchObject([{ kind: 'skipped', reason: expect.stringContaining('key') }]);
    expect(existsSync(folder)).toBe(false);
  });

  it('leave no partial file where the load is aborted while they are written', async () => {
    const addon = requireAddon();
    const controller = new AbortController();
    const aborting = {
      ...addon,
      copyImage: (...args: Parameters<typeof addon.copyImage>) => {
        controller.abort(new Error('given up'));
        addon.copyImage(...args);
      },
    };
    const load = { ...loadOf(model), signal: controller.signal };
    const loading = loadNative(
      aborting,
      { isa: 'scalar', fast: 'native', threads: 1, packedWeights: { folder } },
      load,
    );
    await expect(loading).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(readdirSync(folder)).toEqual([]);
  });

  it('are packed where their file is cut off while it is read', async () => {
    const { logits } = await answer(loadOf(model));
    const path = onlyFile();
    const addon = requireAddon();
    const cutting = {
      ...addon,
      sumImage: (...args: Parameters<typeof addon.sumImage>) => {
        if (args[2] !== undefined) resize(path, IMAGE_AT + 100);
        return addon.sumImage(...args);
      },
    };
    const outcomes: PackedOutcome[] = [];
    const packedWeights = { folder, onOutcome: (outcome: PackedOutcome) => outcomes.push(outcome) };
    const handle = await loadNative(
      cutting,
      { isa: 'scalar', fast: 'native', threads: 1, packedWeights },
      loadOf(model),
    );
    await addon.close(handle);
    expect(outcomes).toMatchObject([{ kind: 'written', replaced: 'the file ended before the image did' }]);
    expectEqualBits((await answer(loadOf(model))).logits, logits, 'afterwards');
  });

  it('are whole in the one file of two loads at once', async () => {
    const both = await Promise.all([1, 2].map(() => raced(loadOf(model))));
    expect(both.map(({ kind }) => kind)).toEqual(['written', 'written']);
    onlyFile();
    expect((await answer({ ...loadOf(model), weights: unread })).outcomes).toMatchObject([{ kind: 'read' }]);
  });

  it('take at most the bytes of the limit, and those not used for longest go first', async () => {
    const keys = ['a', 'b', 'c'];
    const loads = keys.map((weightsKey) => ({ ...loadOf(model), weightsKey }));
    const paths: string[] = [];
    for (const [index, load] of loads.slice(0, 2).entries()) {
      const [outcome] = (await answer(load)).outcomes;
      if (outcome.kind === 'written') paths.push(outcome.path);
      utimesSync(paths[index], index + 1, index + 1);
    }
    // The first one is used again, so the second is the oldest.
    await answer({ ...loads[0], weights: unread });
    const limit = 2 * statSync(paths[0]).size;
    await answer(loads[2], {}, limit);
    expect(existsSync(paths[0])).toBe(true);
    expect(existsSync(paths[1])).toBe(false);
    expect(readdirSync(folder)).toHaveLength(2);
    const tooLarge = await answer({ ...loadOf(model), weightsKey: 'd' }, {}, limit / 2 - 1);
    expect(tooLarge.outcomes).toMatchObject([{ kind: 'skipped', reason: expect.stringContaining('the limit') }]);
    expect(readdirSync(folder)).toHaveLength(2);
  });

  it('take with them what a process that died has left, and nothing that is being written', async () => {
    mkdirSync(folder, { recursive: true });
    const [old, young, foreign] = ['old.stet-partial', 'young.stet-partial', 'notes.txt'].map((name) =>
      join(folder, name),
    );
    for (const path of [old, young, foreign]) writeFileSync(path, 'x');
    for (const path of [old, foreign]) utimesSync(path, 1, 1);
    await answer(loadOf(model));
    expect([old, young, foreign].map((path) => existsSync(path))).toEqual([false, true, true]);
  });

  it('are found by what they are of', async () => {
    const { plan, weightsKey } = loadOf(model);
    const choice = { folder, plan, weightsKey: weightsKey! };
    expect(await packedWeightsFile(choice)).toBeUndefined();
    await answer(loadOf(model));
    const path = onlyFile();
    expect(await packedWeightsFile(choice)).toEqual({ path, bytes: statSync(path).size });
    expect(await packedWeightsFile({ ...choice, weightsKey: 'another' })).toBeUndefined();
  });

  it.each([
    ['a folder without a name', { folder: '' }, 'folder is empty'],
    ['a limit below nothing', { folder: root, maxBytes: -1 }, 'maxBytes is -1'],
    ['a limit that is no number', { folder: root, maxBytes: Number.NaN }, 'maxBytes is NaN'],
  ])('refuse %s', async (_, packedWeights, message) => {
    await expect(createCpuBackend({ selfTest: false, packedWeights })(loadOf(model))).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining(message),
    });
  });
});

function resize(path: string, bytes: number): void {
  chmodSync(path, 0o600);
  truncateSync(path, bytes);
}

function becomeLink(path: string): void {
  const elsewhere = join(root, `elsewhere-${count}`);
  copyFileSync(path, elsewhere);
  rmSync(path);
  symlinkSync(elsewhere, path);
}

/** The outcome of a load that others run beside. */
async function raced(load: BackendLoad): Promise<PackedOutcome> {
  const outcomes: PackedOutcome[] = [];
  const packedWeights = { folder, onOutcome: (outcome: PackedOutcome) => outcomes.push(outcome) };
  const backend = await createCpuBackend({ threads: 1, selfTest: false, packedWeights })(load);
  await backend.close();
  expect(outcomes).toHaveLength(1);
  return outcomes[0];
}
