import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gguf as libraryHeader } from '@huggingface/gguf';
import { type FileSource, memorySource } from '@stet/model';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GgufHeader, readGgufHeader } from '../src/gguf/header/read-header.js';
import { openFolder } from '../src/node/folder-source.js';
import { ByteWriter, type GgufContents, type GgufTensor, gguf, type TypedValue } from './support/gguf-writer.js';
import { hasSharedModels, needsSharedModels, sharedModel } from './support/shared-models.js';

const FILE = 'model.gguf';
const F32 = 0;
const Q8_0 = 8;

const readBytes = (bytes: Uint8Array): Promise<GgufHeader> => readGgufHeader(memorySource({ [FILE]: bytes }), FILE);
const read = (contents: Partial<GgufContents>): Promise<GgufHeader> =>
  readBytes(gguf({ metadata: {}, tensors: [], ...contents }));
const vector = (name: string, size: number): GgufTensor => ({
  name,
  type: F32,
  shape: [size],
  bytes: new Uint8Array(4 * size),
});
const refusal = (message: string | RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_GGUF', message: expect.stringMatching(message) });

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'stet-gguf-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The header as the library reads it, in our form. */
async function asLibraryReads(path: string) {
  const { metadata, tensorInfos, tensorDataOffset } = await libraryHeader(path, { allowLocalFile: true });
  const { version: _, tensor_count: _tensors, kv_count: _keys, ...values } = metadata as Record<string, unknown>;
  return {
    metadata: values,
    tensors: tensorInfos.map(({ name, shape, dtype, offset }) => ({
      name,
      shape: shape.map(Number).reverse(),
      type: dtype,
      start: Number(tensorDataOffset + offset),
    })),
  };
}

/** Our header in a form that can be compared: arrays of all kinds as plain ones, types by number. */
function plain(header: GgufHeader, typeNumbers: Readonly<Record<string, number>>) {
  const keys = [...header.metadata.keys()];
  const values = keys.map((key) => {
    const value = header.metadata.get(key)!;
    return [key, typeof value === 'object' ? Array.from<unknown>(value as Iterable<unknown>) : value] as const;
  });
  return {
    metadata: Object.fromEntries(values),
    tensors: header.tensors.map(({ name, shape, type, start }) => ({
      name,
      shape,
      type: typeNumbers[type.name],
      start,
    })),
  };
}

/** Texts that both readers take: without a byte order mark at the front, and without lone surrogates. */
const text = fc.string({ unit: 'binary', maxLength: 12 }).filter((value) => !value.startsWith('\ufeff'));
const key = fc.string({ minLength: 1, maxLength: 10 }).filter((value) => !/^(general\.|__proto__|\d+$)/.test(value));
const numbers = {
  u8: fc.nat(255),
  i8: fc.integer({ min: -128, max: 127 }),
  u16: fc.nat(65535),
  i16: fc.integer({ min: -32768, max: 32767 }),
  u32: fc.nat({ max: 0xffffffff }),
  i32: fc.integer(),
  f32: fc.float(),
  f64: fc.double(),
  u64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  i64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  bool: fc.boolean(),
  string: text,
} as const;
const typedValue: fc.Arbitrary<TypedValue> = fc.oneof(
  ...Object.entries(numbers).flatMap(([type, value]): fc.Arbitrary<TypedValue>[] => [
    fc.tuple(fc.constant(type), value) as fc.Arbitrary<TypedValue>,
    fc.tuple(
      fc.constant([type]),
      fc.array(value as fc.Arbitrary<number>, { maxLength: 5 }),
    ) as fc.Arbitrary<TypedValue>,
  ]),
);
const tensors = fc
  .uniqueArray(
    fc.tuple(fc.string({ maxLength: 12 }), fc.array(fc.nat(3), { minLength: 1, maxLength: 4 }), fc.boolean()),
    {
      selector: ([name]) => name,
      maxLength: 6,
    },
  )
  .map((list) =>
    list.map(([name, shape, inBlocks]): GgufTensor => {
      const columns = shape.at(-1)! * (inBlocks ? 32 : 1);
      const sizes = [...shape.slice(0, -1), columns];
      const elements = sizes.reduce((product, size) => product * size, 1);
      return {
        name,
        type: inBlocks ? Q8_0 : F32,
        shape: sizes,
        bytes: new Uint8Array(inBlocks ? (elements / 32) * 34 : elements * 4),
      };
    }),
  );

describe('a GGUF header', () => {
  it('is what the library reads, for any file that both read', async () => {
    const path = join(folder, FILE);
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(key, typedValue), { selector: ([name]) => name, maxLength: 8 }),
        tensors,
        fc.constantFrom(2, 3),
        fc.constantFrom(undefined, 1, 8, 64),
        async (entries, list, version, alignment) => {
          const metadata = Object.fromEntries(entries);
          if (alignment !== undefined) metadata['general.alignment'] = ['u32', alignment];
          const bytes = gguf({ metadata, tensors: list, version, ...(alignment !== undefined && { alignment }) });
          writeFileSync(path, bytes);
          expect(plain(await readBytes(bytes), { F32, Q8_0 })).toEqual(await asLibraryReads(path));
        },
      ),
      { numRuns: 150 },
    );
  });

  it('has arrays of numbers as typed arrays', async () => {
    const { metadata } = await read({
      metadata: { a: [['i32'], [1, -2]], b: [['f32'], [0.5]], c: [['u64'], [2n ** 63n]], d: [['bool'], [true, false]] },
    });
    expect(metadata.get('a')).toEqual(Int32Array.of(1, -2));
    expect(metadata.get('b')).toEqual(Float32Array.of(0.5));
    expect(metadata.get('c')).toEqual(BigUint64Array.of(2n ** 63n));
    expect(metadata.get('d')).toEqual([true, false]);
  });

  it('keeps a byte order mark of a string, which the library drops', async () => {
    const metadata: GgufContents['metadata'] = {
      mark: ['string', '\ufeff'],
      tokens: [['string'], ['\ufeff', 'a', '\ufeffb']],
    };
    const bytes = gguf({ metadata, tensors: [] });
    const header = await readBytes(bytes);
    expect(header.metadata.get('mark')).toBe('\ufeff');
    expect(header.metadata.get('tokens')).toEqual(['\ufeff', 'a', '\ufeffb']);
    writeFileSync(join(folder, FILE), bytes);
    expect((await asLibraryReads(join(folder, FILE))).metadata).toEqual({ mark: '', tokens: ['', 'a', 'b'] });
  });

  it('keeps a string whole that the library cuts where its first 2 MB end', async () => {
    const long = 'x'.repeat(2_400_000);
    const bytes = gguf({ metadata: { long: ['string', long] }, tensors: [] });
    expect((await readBytes(bytes)).metadata.get('long')).toBe(long);
    writeFileSync(join(folder, FILE), bytes);
    const { metadata } = await asLibraryReads(join(folder, FILE));
    expect((metadata.long as string).length).toBeLessThan(long.length);
  });

  it('refuses a file that ends early, which the library fills up with zeros', async () => {
    const whole = gguf({ metadata: { a: ['u32', 7], b: ['u32', 7] }, tensors: [] });
    const cut = whole.slice(0, 45);
    writeFileSync(join(folder, FILE), cut);
    expect(Object.keys((await asLibraryReads(join(folder, FILE))).metadata).length).toBeGreaterThan(0);
    await expect(readBytes(cut)).rejects.toEqual(refusal('model.gguf ends inside its header, at key 1'));
  });

  it('is read in growing ranges, each byte once, and little of the data after it', async () => {
    const metadata: GgufContents['metadata'] = {
      tokens: [['string'], Array.from({ length: 60_000 }, (_, i) => `token ${i} é 日本`)],
      scores: [['f32'], Array.from({ length: 60_000 }, (_, i) => i / 2)],
      text: ['string', 'ü'.repeat(700_000)],
    };
    const bytes = gguf({ metadata, tensors: [vector('data', 3_000_000)] });
    const source = memorySource({ [FILE]: bytes });
    const ranges: [number, number][] = [];
    const counting: FileSource = {
      ...source,
      read: (name, start, end) => {
        ranges.push([start, end]);
        return source.read(name, start, end);
      },
    };
    const header = await readGgufHeader(counting, FILE);
    expect(header.metadata.get('tokens')).toEqual(metadata.tokens![1]);
    expect(header.metadata.get('scores')).toEqual(Float32Array.from(metadata.scores![1] as number[]));
    expect(header.metadata.get('text')).toBe(metadata.text![1]);
    expect(ranges.length).toBeGreaterThan(2);
    expect(ranges.length).toBeLessThan(10);
    let last = 0;
    for (const [start, end] of ranges) {
      expect(start).toBe(last);
      last = end;
    }
    expect(last).toBeLessThan(2 * header.tensors[0]!.start);
  });

  it('gives up when its signal aborts', async () => {
    const bytes = gguf({ metadata: { text: ['string', 'x'.repeat(2_000_000)] }, tensors: [] });
    const controller = new AbortController();
    const source = memorySource({ [FILE]: bytes });
    const aborting: FileSource = {
      ...source,
      read: async (name, start, end) => {
        controller.abort();
        return source.read(name, start, end);
      },
    };
    await expect(readGgufHeader(aborting, FILE, controller.signal)).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
  });
});

describe.skipIf(!hasSharedModels)(`the header of SmolLM2${needsSharedModels}`, () => {
  it('is what the library reads', async () => {
    const name = 'SmolLM2-135M-Instruct.Q4_1.gguf';
    const source = await openFolder(sharedModel('smollm2'));
    const header = await readGgufHeader(source, name);
    await source.close();
    expect(plain(header, { F32, Q8_0, Q4_1: 3 })).toEqual(await asLibraryReads(sharedModel('smollm2', name)));
    expect((header.metadata.get('tokenizer.ggml.merges') as string[]).length).toBe(48_900);
  });
});

describe('a damaged GGUF header', () => {
  /** A file whose start is written by hand. */
  const raw = (write: (writer: ByteWriter) => unknown, version = 3, magic = 'GGUF'): Uint8Array => {
    const writer = new ByteWriter().ascii(magic).number('u32', version);
    write(writer);
    return writer.finish();
  };
  const counts = (writer: ByteWriter, tensorCount: bigint, keyCount: bigint): ByteWriter =>
    writer.number('u64', tensorCount).number('u64', keyCount);
  const HUGE = 2n ** 64n - 1n;
  const entry = (writer: ByteWriter, name: string, type: number): ByteWriter => writer.string(name).number('u32', type);
  const tensorEntry = (writer: ByteWriter, shape: readonly bigint[], type: number, offset: bigint): ByteWriter => {
    writer.string('t').number('u32', shape.length);
    for (const size of shape) writer.number('u64', size);
    return writer.number('u32', type).number('u64', offset);
  };

  it.each<[string, RegExp, Uint8Array]>([
    ['an empty file', /ends inside its header, at its magic number/, new Uint8Array(0)],
    ['another format', /does not begin with GGUF/, raw((w) => counts(w, 0n, 0n), 3, 'GGML')],
    ['version 1', /is GGUF version 1; supported are 2 and 3/, raw((w) => counts(w, 0n, 0n), 1)],
    ['version 4', /is GGUF version 4/, raw((w) => counts(w, 0n, 0n), 4)],
    ['version 0', /is GGUF version 0/, raw((w) => counts(w, 0n, 0n), 0)],
    ['a big-endian file', /is big-endian/, raw((w) => counts(w, 0n, 0n), 0x03000000)],
    ['too many tensors', /has more than 65536 tensors/, raw((w) => counts(w, HUGE, 0n))],
    ['too many keys', /has more than 65536 keys/, raw((w) => counts(w, 0n, HUGE))],
    ['more keys than there are', /ends inside its header, at key 0/, raw((w) => counts(w, 0n, 5n))],
    [
      'a key beyond the file',
      /key 0 has a string that is longer than the file/,
      raw((w) => counts(w, 0n, 1n).number('u64', 2000n)),
    ],
    [
      'a key of 2^64 bytes',
      /key 0 has a string that is longer than/,
      raw((w) => counts(w, 0n, 1n).number('u64', HUGE)),
    ],
    ['an empty key', /has an empty key/, raw((w) => entry(counts(w, 0n, 1n), '', 4).number('u32', 1))],
    ['an unknown type', /key "a" has the unknown type 13/, raw((w) => entry(counts(w, 0n, 1n), 'a', 13))],
    ['a bool of 2', /key "a" has a bool that is 2/, raw((w) => entry(counts(w, 0n, 1n), 'a', 7).number('u8', 2))],
    [
      'a string beyond the file',
      /key "a" has a string that is longer than the file/,
      raw((w) => entry(counts(w, 0n, 1n), 'a', 8).number('u64', HUGE)),
    ],
    [
      'an array of arrays',
      /key "a" is an array of arrays/,
      raw((w) =>
        entry(counts(w, 0n, 1n), 'a', 9)
          .number('u32', 9)
          .number('u64', 0n),
      ),
    ],
    [
      'an array of 2^64 bytes',
      /key "a" is an array of more than 4194304 elements/,
      raw((w) =>
        entry(counts(w, 0n, 1n), 'a', 9)
          .number('u32', 0)
          .number('u64', HUGE),
      ),
    ],
    [
      'an array beyond the file',
      /ends inside its header, at key "a"/,
      raw((w) =>
        entry(counts(w, 0n, 1n), 'a', 9)
          .number('u32', 10)
          .number('u64', 4_000_000n),
      ),
    ],
    [
      'strings beyond the file',
      /ends inside its header, at key "a"/,
      raw((w) =>
        entry(counts(w, 0n, 1n), 'a', 9)
          .number('u32', 8)
          .number('u64', 4_000_000n),
      ),
    ],
    [
      'five dimensions',
      /tensor "t" has 5 dimensions/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [1n, 1n, 1n, 1n, 1n], 0, 0n)),
    ],
    [
      'a dimension of 2^64',
      /tensor "t" has a dimension above/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [HUGE], 0, 0n)),
    ],
    [
      'more elements than numbers can count',
      /tensor "t" has too many elements/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [2n ** 40n, 2n ** 40n], 0, 0n)),
    ],
    [
      'an unknown tensor type',
      /tensor "t" has the unknown type 99/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [1n], 99, 0n)),
    ],
    [
      'a type of the past',
      /tensor "t" has the type Q4_0_8_8, which the format no longer has; supported are F32, F16, Q4_0/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [32n], 33, 0n)),
    ],
    [
      'rows of half a block',
      /tensor "t" has rows of 48, Q8_0 needs a multiple of 32/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [48n], 8, 0n)),
    ],
    [
      'data at an odd place',
      /tensor "t" begins at 4, which is no multiple of 32/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [1n], 0, 4n).bytes(new Uint8Array(99))),
    ],
    [
      'data beyond the file',
      /tensor "t" begins beyond the end of the file/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [1n], 0, HUGE)),
    ],
    [
      'data that end after the file',
      /tensor "t" ends at \d+, but the file has \d+ bytes/,
      raw((w) => tensorEntry(counts(w, 1n, 0n), [8n], 0, 0n).bytes(new Uint8Array(8))),
    ],
  ])('with %s is refused', async (_what, message, bytes) => {
    await expect(readBytes(bytes)).rejects.toEqual(refusal(message));
  });

  it('with a key twice is refused', async () => {
    const bytes = raw((w) => {
      entry(counts(w, 0n, 2n), 'a', 4).number('u32', 1);
      entry(w, 'a', 4).number('u32', 2);
    });
    await expect(readBytes(bytes)).rejects.toEqual(refusal('has the key "a" twice'));
  });

  it('with a tensor twice is refused', async () => {
    await expect(read({ tensors: [vector('a', 4), vector('a', 4)] })).rejects.toEqual(
      refusal('has the tensor "a" twice'),
    );
  });

  it('with tensors that overlap is refused', async () => {
    const bytes = gguf({ metadata: {}, tensors: [vector('first', 9), vector('other', 9)] });
    // The offset of the second tensor is the last thing before the data.
    const at = bytes.indexOf('o'.charCodeAt(0)) + 'other'.length + 4 + 8 + 4;
    bytes[at] = 32;
    await expect(readBytes(bytes)).rejects.toEqual(refusal('tensor "other" overlaps tensor "first"'));
  });

  it.each<[string, TypedValue]>([
    ['0', ['u32', 0]],
    ['3', ['u32', 3]],
    ['-8', ['i32', -8]],
    ['a string', ['string', '32']],
    ['0.5', ['f32', 0.5]],
  ])('with an alignment of %s is refused', async (_what, value) => {
    await expect(read({ metadata: { 'general.alignment': value } })).rejects.toEqual(
      refusal('has a general.alignment that is not a power of two'),
    );
  });

  it.each<[string, readonly number[]]>([
    ['a byte that no character has', [0xff]],
    ['a character that is cut', [0xe2, 0x82]],
    ['the rest of a character', [0xac]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['a longer form than needed', [0xc0, 0x80]],
  ])('with %s in a string is refused', async (_what, bytes) => {
    const put = (writer: ByteWriter, ...parts: (readonly number[])[]): ByteWriter => {
      for (const part of parts) writer.number('u64', BigInt(part.length)).bytes(Uint8Array.from(part));
      return writer;
    };
    const one = raw((w) => put(entry(counts(w, 0n, 1n), 'a', 8), bytes));
    await expect(readBytes(one)).rejects.toEqual(refusal('key "a" has a string that is not UTF-8'));
    const many = raw((w) =>
      put(
        entry(counts(w, 0n, 1n), 'a', 9)
          .number('u32', 8)
          .number('u64', 3n),
        [0x61],
        bytes,
        [0x62],
      ),
    );
    await expect(readBytes(many)).rejects.toEqual(refusal('key "a" has a string that is not UTF-8'));
  });

  it('with a character that two strings share is refused', async () => {
    const bytes = raw((w) => {
      entry(counts(w, 0n, 1n), 'a', 9)
        .number('u32', 8)
        .number('u64', 2n);
      w.number('u64', 1n).bytes(Uint8Array.of(0xc3)).number('u64', 1n).bytes(Uint8Array.of(0xa9));
    });
    await expect(readBytes(bytes)).rejects.toEqual(refusal('key "a" has a string that is not UTF-8'));
  });

  it('cut at any length is refused', async () => {
    const whole = gguf({
      metadata: { a: ['string', 'text'], b: [['u16'], [1, 2]], c: [['string'], ['x', 'yz']], d: ['f64', 1] },
      tensors: [vector('t', 3), vector('u', 5)],
    });
    await readBytes(whole);
    // The last tensor has 20 bytes of its 32.
    for (let length = 0; length < whole.length - 12; length++) {
      await expect(readBytes(whole.slice(0, length)), `${length} bytes`).rejects.toEqual(refusal(/^model\.gguf /));
    }
  });
});
