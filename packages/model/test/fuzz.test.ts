import { checkPlan, isStetError } from '@stet/backend';
import { type FileSource, type LoadedModel, loadModel, memorySource } from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonBytes, safetensors, smallModelFiles, smallTensor, smallTensors } from './support/small-model.js';

/** Each file is read at most this often: a header or JSON once to parse it, everything once for the digest. */
const READS_PER_BYTE = 2;
/** Reading all weights reads each byte of data once more. */
const READS_PER_BYTE_WITH_WEIGHTS = READS_PER_BYTE + 1;
/** Far above what a case takes, far below what a runaway takes. */
const CASE_LIMIT_MS = 4000;

type Files = Record<string, Uint8Array>;

const single = smallModelFiles();
const sharded = shardedFiles();

function shardedFiles(): Files {
  const { 'model.safetensors': _, ...files } = smallModelFiles();
  const tensors = smallTensors().map(([name, shape]) => smallTensor(name, shape));
  const half = Math.ceil(tensors.length / 2);
  const parts = {
    'model-00001-of-00002.safetensors': tensors.slice(0, half),
    'model-00002-of-00002.safetensors': tensors.slice(half),
  };
  const weightMap = Object.entries(parts).flatMap(([file, list]) => list.map(({ name }) => [name, file]));
  return {
    ...files,
    ...Object.fromEntries(Object.entries(parts).map(([file, list]) => [file, safetensors(list)])),
    'model.safetensors.index.json': jsonBytes({ metadata: {}, weight_map: Object.fromEntries(weightMap) }),
  };
}

/** Counts the bytes that are asked for, and refuses a range that the file does not have. */
function metered(files: Files): { source: FileSource; asked: () => number } {
  const source = memorySource(files);
  let asked = 0;
  const read: FileSource['read'] = async (name, start, end) => {
    const size = await source.size(name);
    if (!(start >= 0 && start <= end && end <= size))
      throw new Error(`read ${start}..${end} of ${name}, ${size} bytes`);
    asked += end - start;
    return source.read(name, start, end);
  };
  return { source: { ...source, read }, asked: () => asked };
}

/** Loads and uses a damaged model: it works, or fails with a StetError, within its budget of bytes and time. */
async function survive(files: Files): Promise<'works' | string> {
  const { source, asked } = metered(files);
  const total = Object.values(files).reduce((sum, bytes) => sum + bytes.length, 0);
  const started = performance.now();
  let model: LoadedModel;
  let outcome: string;
  try {
    model = await loadModel(source);
    expect(asked()).toBeLessThanOrEqual(READS_PER_BYTE * total);
    outcome = await use(model);
  } catch (error) {
    if (!isStetError(error)) throw error;
    expect(error.message.length).toBeLessThan(1000);
    outcome = error.code;
  }
  expect(asked()).toBeLessThanOrEqual(READS_PER_BYTE_WITH_WEIGHTS * total);
  expect(performance.now() - started).toBeLessThan(CASE_LIMIT_MS);
  return outcome;
}

async function use(model: LoadedModel): Promise<string> {
  checkPlan(model.plan);
  for (const spec of model.plan.weights) await model.weights.read(spec);
  const ids = model.tokenizer!.encode('Hello, wörld <|end|>', { addSpecialTokens: true });
  expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < model.plan.vocabSize)).toBe(true);
  expect(typeof model.tokenizer!.decode([...ids, 12345], { skipSpecialTokens: false })).toBe('string');
  model.chatTemplate?.render({ messages: [{ role: 'user', content: 'hi' }] });
  await model.close();
  return 'works';
}

/** Bytes flipped, cut, repeated. */
const byteDamage = (bytes: Uint8Array): fc.Arbitrary<Uint8Array> => {
  // Most of a safetensors file is data; what can go wrong is in its first bytes.
  const place = fc.oneof(
    fc.nat(bytes.length - 1),
    fc.nat(Math.min(2000, bytes.length - 1)),
    fc.nat(Math.min(15, bytes.length - 1)),
  );
  const flips = fc.array(fc.tuple(place, fc.nat(255)), { minLength: 1, maxLength: 6 }).map((changes) => {
    const copy = bytes.slice();
    for (const [at, value] of changes) copy[at] = value;
    return copy;
  });
  const cut = fc.oneof(place, fc.nat(20)).map((length) => bytes.slice(0, length));
  const repeat = fc.tuple(place, place).map(([a, b]) => {
    const [start, end] = a < b ? [a, b] : [b, a];
    return Uint8Array.from([...bytes.subarray(0, end), ...bytes.subarray(start)]);
  });
  return fc.oneof({ arbitrary: flips, weight: 4 }, cut, repeat);
};

const oddValues = [
  null,
  true,
  false,
  -1,
  0,
  0.5,
  1,
  7,
  1e9,
  2 ** 31,
  2 ** 53,
  1e308,
  -1e308,
  '',
  'x',
  '../../etc/passwd',
  'x'.repeat(5000),
  [],
  {},
  [0, 0],
  [0, 2 ** 52],
  [-1],
  [[[[]]]],
  { rope_type: 'yarn' },
  { rope_type: 'dynamic' },
  { type: 'Sequence', decoders: [] },
  { __proto__: null },
];

/** One or two values somewhere in a JSON text replaced by odd ones, keys removed or doubled. */
const jsonDamage = (text: string): fc.Arbitrary<string> =>
  fc
    .array(
      fc.tuple(fc.nat(), fc.constantFrom('replace', 'replace', 'remove', 'rename'), fc.constantFrom(...oddValues)),
      { minLength: 1, maxLength: 2 },
    )
    .map((changes) => {
      const root = JSON.parse(text) as unknown;
      for (const [index, kind, value] of changes) {
        const places = placesOf(root);
        if (places.length === 0) break;
        const [holder, key] = places[index % places.length]!;
        const old = holder[key];
        if (kind === 'replace') holder[key] = structuredClone(value);
        else delete holder[key];
        if (kind === 'rename')
          Object.defineProperty(holder, '__proto__', {
            value: old,
            enumerable: true,
            configurable: true,
            writable: true,
          });
      }
      return JSON.stringify(root);
    });

type Holder = Record<string, unknown>;

/** Places of a JSON value, but not each single entry of a large table. */
function placesOf(value: unknown): [holder: Holder, key: string][] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Holder;
  const keys = Object.keys(holder);
  const sample = keys.length > 60 ? keys.filter((_, i) => i % 37 === 0) : keys;
  return sample.flatMap((key) => [[holder, key] as [Holder, string], ...placesOf(holder[key])]);
}

/** The JSON header of a safetensors file damaged, with its length corrected. */
const headerDamage = (bytes: Uint8Array): fc.Arbitrary<Uint8Array> => {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const data = bytes.subarray(8 + length);
  return jsonDamage(new TextDecoder().decode(bytes.subarray(8, 8 + length))).map((text) => {
    const header = new TextEncoder().encode(text);
    const file = new Uint8Array(8 + header.length + data.length);
    new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
    file.set(header, 8);
    file.set(data, 8 + header.length);
    return file;
  });
};

const damage = (name: string, bytes: Uint8Array): fc.Arbitrary<Uint8Array> => {
  const structured = name.endsWith('.safetensors')
    ? headerDamage(bytes)
    : jsonDamage(new TextDecoder().decode(bytes)).map((text) => new TextEncoder().encode(text));
  return fc.oneof({ arbitrary: byteDamage(bytes), weight: 1 }, { arbitrary: structured, weight: 2 });
};

/** One file of a model, damaged. */
interface Damaged {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** What a failure prints. */
const preview = ({ name, bytes }: Damaged): string =>
  `${name}: ${JSON.stringify(new TextDecoder().decode(bytes.subarray(0, 1500)))}`;

const damagedFile = (files: Files): fc.Arbitrary<Damaged> =>
  fc.constantFrom(...Object.keys(files)).chain((name) =>
    damage(name, files[name]!).map((bytes) => {
      const damaged: Damaged = { name, bytes };
      return Object.defineProperty(damaged, fc.toStringMethod, { value: () => preview(damaged) });
    }),
  );

describe('a damaged model', () => {
  it.each([
    ['one file', single],
    ['shards', sharded],
  ])('of %s works or fails with a StetError, within its budget', async (_what, files) => {
    expect(await survive(files)).toBe('works');
    const outcomes = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(damagedFile(files), async ({ name, bytes }) => {
        const outcome = await survive({ ...files, [name]: bytes });
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }),
      { numRuns: 600, seed: 1234, endOnFailure: true },
    );
    // The damage must reach every part of the loader, or the test shows nothing.
    for (const code of [
      'BAD_CONFIG',
      'UNKNOWN_ARCHITECTURE',
      'BAD_SAFETENSORS',
      'MISSING_TENSOR',
      'BAD_TENSOR',
      'BAD_TOKENIZER',
    ]) {
      expect([...outcomes.keys()], code).toContain(`STET_ERR_${code}`);
    }
    expect(outcomes.get('works')).toBeGreaterThan(20);
  });

  it.each(['model.safetensors', 'config.json', 'tokenizer.json'])(
    'with %s cut at every length fails with a StetError',
    async (name) => {
      const bytes = single[name]!;
      const lengths = new Set([
        ...Array(64).keys(),
        ...Array.from({ length: 64 }, (_, i) => Math.floor((i * bytes.length) / 64)),
        bytes.length - 1,
      ]);
      for (const length of lengths) {
        expect(await survive({ ...single, [name]: bytes.slice(0, length) }), `${length} bytes`).toMatch(
          /^STET_ERR_BAD_/,
        );
      }
    },
  );
});
