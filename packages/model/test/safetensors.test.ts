import { floatTypes, memorySource, openCheckpoint, readHeader } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { jsonBytes, safetensors, safetensorsWith, smallTensor } from './support/small-model.js';

const F = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
const header = (bytes: Uint8Array) => readHeader(memorySource({ [F]: bytes }), F);
const bad = (message: RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_SAFETENSORS', message: expect.stringMatching(message) });
const tensor = (dtype: string, shape: number[], start: number, end: number) =>
  JSON.stringify({ dtype, shape, data_offsets: [start, end] });

describe('a safetensors header', () => {
  it('gives name, type, shape and place of each tensor', async () => {
    const bytes = safetensors([smallTensor('a', [2, 3]), smallTensor('b', [])], { format: 'pt' });
    const dataStart = bytes.length - 14;
    expect(await header(bytes)).toEqual([
      { name: 'a', file: F, type: floatTypes.BF16, shape: [2, 3], start: dataStart, end: dataStart + 12 },
      { name: 'b', file: F, type: floatTypes.BF16, shape: [], start: dataStart + 12, end: dataStart + 14 },
    ]);
  });

  it('may be padded with spaces, list tensors in any order and hold empty ones', async () => {
    const text = `{"b":${tensor('U8', [4], 4, 8)},"a":${tensor('F32', [1], 0, 4)},"none":${tensor('F32', [0, 7], 4, 4)}}   `;
    expect((await header(safetensorsWith(text, 8))).map(({ name }) => name)).toEqual(['b', 'a', 'none']);
  });

  it('keeps names that are special to JavaScript as plain names', async () => {
    const text = `{"__proto__":${tensor('U8', [1], 0, 1)},"constructor":${tensor('U8', [1], 1, 2)}}`;
    const tensors = await header(safetensorsWith(text, 2));
    expect(tensors.map(({ name, shape }) => [name, shape])).toEqual([
      ['__proto__', [1]],
      ['constructor', [1]],
    ]);
  });

  it.each<[string, Uint8Array, RegExp]>([
    ['an empty file', new Uint8Array(0), /0 bytes, too few/],
    ['a file of 7 bytes', new Uint8Array(7), /7 bytes, too few/],
    ['an empty header', new Uint8Array(8), /does not begin with \{/],
    ['a header longer than the file', safetensorsWith('{}', 0, 3n), /ends inside its header: 3 bytes/],
    ['a header of 2^63 bytes', safetensorsWith('{}', 0, 2n ** 63n), /at most 100000000/],
    ['a header just above the limit', safetensorsWith('{}', 0, 100_000_001n), /at most 100000000/],
    ['a header that is no JSON', safetensorsWith('{"a"', 0), /not JSON/],
    ['a header that is no UTF-8', safetensors([smallTensor('a', [1])]).fill(0xff, 10, 11), /not JSON/],
    ['a header that is a list', safetensorsWith('[]', 0), /does not begin with \{/],
    ['metadata of numbers', safetensors([], { a: 1 }), /__metadata__/],
    ['a tensor that is a number', safetensorsWith('{"a":1}', 0), /tensor "a" is not an object/],
    ['an unknown type', safetensorsWith(`{"a":${tensor('F8_X', [1], 0, 1)}}`, 1), /unknown dtype "F8_X"/],
    ['a type from the prototype', safetensorsWith(`{"a":${tensor('toString', [1], 0, 1)}}`, 1), /unknown dtype/],
    ['a negative dimension', safetensorsWith(`{"a":${tensor('U8', [-1, -1], 0, 1)}}`, 1), /bad shape/],
    ['a dimension with a fraction', safetensorsWith(`{"a":${tensor('U8', [0.5, 2], 0, 1)}}`, 1), /bad shape/],
    ['too many dimensions', safetensorsWith(`{"a":${tensor('U8', Array(17).fill(1), 0, 1)}}`, 1), /bad shape/],
    [
      'a shape that overflows',
      safetensorsWith(`{"a":${tensor('U8', [2 ** 40, 2 ** 40], 0, 1)}}`, 1),
      /too many elements/,
    ],
    [
      'offsets of one number',
      safetensorsWith('{"a":{"dtype":"U8","shape":[1],"data_offsets":[1]}}', 1),
      /bad data_offsets/,
    ],
    ['offsets past the file', safetensorsWith(`{"a":${tensor('U8', [9], 0, 9)}}`, 8), /0\.\.9, the file has 8 bytes/],
    ['offsets that run backwards', safetensorsWith(`{"a":${tensor('U8', [1], 1, 0)}}`, 8), /1\.\.0/],
    [
      'a size that is not shape times type',
      safetensorsWith(`{"a":${tensor('F32', [2], 0, 4)}}`, 4),
      /not what F32 \[2\] takes/,
    ],
    ['half a byte', safetensorsWith(`{"a":${tensor('F4', [3], 0, 1)}}`, 1), /not what F4 \[3\] takes/],
    [
      'overlapping tensors',
      safetensorsWith(`{"a":${tensor('U8', [4], 0, 4)},"b":${tensor('U8', [4], 2, 6)}}`, 6),
      /"b" overlaps/,
    ],
    [
      'a hole between tensors',
      safetensorsWith(`{"a":${tensor('U8', [1], 0, 1)},"b":${tensor('U8', [1], 3, 4)}}`, 4),
      /2 bytes that no tensor uses before "b"/,
    ],
    ['a hole at the end', safetensorsWith(`{"a":${tensor('U8', [1], 0, 1)}}`, 4), /3 bytes after its last tensor/],
    [
      'a tensor twice',
      safetensorsWith(`{"a":${tensor('U8', [1], 0, 1)},"\\u0061":${tensor('U8', [1], 0, 1)}}`, 1),
      /the key "a" twice/,
    ],
    [
      'a field twice',
      safetensorsWith('{"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}}', 0),
      /"dtype" twice/,
    ],
  ])('is refused for %s', async (_what, bytes, message) => {
    await expect(header(bytes)).rejects.toEqual(bad(message));
  });

  it('is refused with a message that a long name cannot flood', async () => {
    const error = await header(safetensorsWith(`{"${'x'.repeat(10_000)}":1}`, 0)).catch((cause: Error) => cause);
    expect((error as Error).message.length).toBeLessThan(200);
  });

  it('reads nothing but itself', async () => {
    const reads: [number, number][] = [];
    const bytes = safetensors([smallTensor('a', [1000])]);
    const source = memorySource({ [F]: bytes });
    await readHeader(
      {
        ...source,
        read: (name, start, end) => {
          reads.push([start, end]);
          return source.read(name, start, end);
        },
      },
      F,
    );
    expect(reads).toEqual([
      [0, 8],
      [8, bytes.length - 2000],
    ]);
  });
});

describe('a checkpoint', () => {
  const open = async (files: Record<string, Uint8Array>) =>
    openCheckpoint(memorySource(files), new Set(Object.keys(files)));
  const shards = (weightMap: unknown) => ({
    [INDEX]: jsonBytes({ metadata: { total_size: 8 }, weight_map: weightMap }),
    'one.safetensors': safetensors([smallTensor('a', [2])]),
    'two.safetensors': safetensors([smallTensor('b', [2])]),
  });
  const good = { a: 'one.safetensors', b: 'two.safetensors' };

  it('gathers the tensors of all shards', async () => {
    const { tensors, files } = await open(shards(good));
    expect([...tensors].map(([name, { file }]) => [name, file])).toEqual(Object.entries(good));
    expect(files).toEqual([INDEX, 'one.safetensors', 'two.safetensors']);
  });

  it('prefers a single file to an index', async () => {
    const { tensors, files } = await open({ ...shards(good), [F]: safetensors([smallTensor('c', [1])]) });
    expect([[...tensors.keys()], files]).toEqual([['c'], [F]]);
  });

  it('says what it found instead of safetensors', async () => {
    await expect(open({ 'pytorch_model.bin': new Uint8Array(1) })).rejects.toMatchObject({
      code: 'STET_ERR_MODEL_NOT_FOUND',
      message: expect.stringContaining('it has pytorch_model.bin'),
    });
  });

  it.each<[string, Record<string, Uint8Array>, RegExp]>([
    ['names a missing shard', shards({ ...good, c: 'three.safetensors' }), /"three\.safetensors", which is missing/],
    ['names a file elsewhere', shards({ ...good, c: '../three.safetensors' }), /which is missing/],
    ['names a file of another kind', shards({ ...good, c: 'one.bin' }), /no safetensors file for "c"/],
    ['names no file', shards({ a: 7 }), /no safetensors file for "a"/],
    [
      'puts a tensor in the wrong shard',
      shards({ ...good, b: 'one.safetensors', a: 'two.safetensors' }),
      /but it is in/,
    ],
    [
      'lists a tensor that is nowhere',
      shards({ ...good, c: 'one.safetensors' }),
      /"c" is in one\.safetensors, where it is not/,
    ],
    [
      'leaves a tensor out',
      { ...shards(good), 'two.safetensors': safetensors([smallTensor('b', [2]), smallTensor('c', [2])]) },
      /does not list "c" of two/,
    ],
    [
      'has a tensor in two shards',
      { ...shards(good), 'two.safetensors': safetensors([smallTensor('a', [2]), smallTensor('b', [2])]) },
      /has the tensor "a" in one\.safetensors and again in two/,
    ],
    ['has an empty map', shards({}), /empty weight_map/],
    ['has a list for a map', shards([]), /no weight_map/],
    ['has no map', { [INDEX]: jsonBytes({}) }, /no weight_map/],
    ['is not JSON', { [INDEX]: new Uint8Array([0x7b]) }, /not JSON/],
    ['is not UTF-8', { [INDEX]: new Uint8Array([0xff]) }, /not UTF-8/],
  ])('is refused where the index %s', async (_what, files, message) => {
    await expect(open(files)).rejects.toEqual(bad(message));
  });
});
