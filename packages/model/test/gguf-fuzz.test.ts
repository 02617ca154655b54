import { checkPlan, isStetError } from '@stet/backend';
import { type FileSource, type LoadedModel, memorySource } from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadGguf } from '../src/gguf/load-gguf.js';
import { type GgufContents, type GgufTensor, gguf, type TypedValue } from './support/gguf-writer.js';
import { smallGguf } from './support/small-gguf.js';

const FILE = 'small.gguf';
/** Once for the header, which here is within the first range that is read, and once for the digest. */
const READS_PER_BYTE = 2;
/** Reading all weights reads each byte of data once more. */
const READS_PER_BYTE_WITH_WEIGHTS = READS_PER_BYTE + 1;
/** Far above what a case takes, far below what a runaway takes. */
const CASE_LIMIT_MS = 4000;

const contents = smallGguf();
const intact = gguf(contents);
const dataBytes = contents.tensors.reduce((sum, { bytes }) => sum + bytes.length, 0);

/** Counts the bytes that are asked for, and refuses a range that the file does not have. */
function metered(bytes: Uint8Array): { source: FileSource; asked: () => number } {
  const source = memorySource({ [FILE]: bytes });
  let asked = 0;
  const read: FileSource['read'] = async (name, start, end) => {
    if (!(start >= 0 && start <= end && end <= bytes.length)) {
      throw new Error(`read ${start}..${end} of ${name}, ${bytes.length} bytes`);
    }
    asked += end - start;
    return source.read(name, start, end);
  };
  return { source: { ...source, read }, asked: () => asked };
}

/** Loads and uses a damaged model: it works, or fails with a StetError, within its budget of bytes and time. */
async function survive(bytes: Uint8Array): Promise<'works' | string> {
  const { source, asked } = metered(bytes);
  const started = performance.now();
  let outcome: string;
  try {
    const model = await loadGguf(source, FILE);
    expect(asked()).toBeLessThanOrEqual(READS_PER_BYTE * bytes.length);
    outcome = await use(model);
  } catch (error) {
    if (!isStetError(error)) throw error;
    expect(error.message.length).toBeLessThan(1000);
    outcome = error.code;
  }
  expect(asked()).toBeLessThanOrEqual(READS_PER_BYTE_WITH_WEIGHTS * bytes.length);
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
const headerLength = intact.length - dataBytes;
const place = fc.oneof(fc.nat(intact.length - 1), fc.nat(headerLength - 1), fc.nat(600), fc.nat(24));
const byteDamage = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.array(fc.tuple(place, fc.nat(255)), { minLength: 1, maxLength: 6 }).map((changes) => {
      const copy = intact.slice();
      for (const [at, value] of changes) copy[at] = value;
      return copy;
    }),
  },
  { weight: 1, arbitrary: place.map((length) => intact.slice(0, length)) },
  {
    weight: 1,
    arbitrary: fc.tuple(place, place).map(([a, b]) => {
      const [start, end] = a < b ? [a, b] : [b, a];
      return Uint8Array.from([...intact.subarray(0, end), ...intact.subarray(start)]);
    }),
  },
);

const oddValues: readonly TypedValue[] = [
  ['u8', 0],
  ['u32', 0],
  ['u32', 1],
  ['u32', 7],
  ['u32', 0xffffffff],
  ['i32', -1],
  ['u64', 2n ** 64n - 1n],
  ['i64', -(2n ** 63n)],
  ['f32', 0],
  ['f32', 0.5],
  ['f32', Number.NaN],
  ['f32', Number.POSITIVE_INFINITY],
  ['f64', 1e300],
  ['bool', true],
  ['bool', false],
  ['string', ''],
  ['string', 'llama'],
  ['string', '\ufeff\0'],
  ['string', 'x'.repeat(5000)],
  ['string', '{{ messages }}{% for'],
  [['string'], []],
  [['string'], ['a', 'a']],
  [['i32'], [1, -1]],
  [['u32'], [48, 48]],
  [['bool'], [true]],
  [['f32'], [Number.NaN]],
];
const otherKeys = [
  'llama.expert_count',
  'llama.rope.scaling.type',
  'general.alignment',
  'split.count',
  'tokenizer.ggml.scores',
];
const keys = [...Object.keys(contents.metadata), ...otherKeys];

/** One or two metadata values replaced by odd ones, taken away, or cut. */
const metadataDamage = fc
  .array(
    fc.tuple(
      fc.constantFrom(...keys),
      fc.constantFrom('replace', 'replace', 'remove', 'cut'),
      fc.constantFrom(...oddValues),
    ),
    {
      minLength: 1,
      maxLength: 2,
    },
  )
  .map((changes): GgufContents => {
    const metadata: Record<string, TypedValue> = { ...contents.metadata };
    for (const [key, kind, value] of changes) {
      const old = metadata[key];
      if (kind === 'remove') delete metadata[key];
      else if (kind === 'cut' && old && Array.isArray(old[1])) metadata[key] = [old[0], old[1].slice(1)] as TypedValue;
      else metadata[key] = value;
    }
    return { ...contents, metadata };
  });

/** One or two tensors with another name, shape or type, doubled or taken away. */
const tensorDamage = fc
  .array(
    fc.tuple(
      fc.nat(contents.tensors.length - 1),
      fc.oneof(
        fc.record({ name: fc.constantFrom('', 'x', 'rope_freqs.weight', 'output.weight', 'blk.0.attn_qkv.weight') }),
        fc.record({ shape: fc.array(fc.constantFrom(0, 1, 32, 48, 2 ** 20, 2 ** 40), { maxLength: 4 }) }),
        fc.record({ type: fc.nat(45) }),
        fc.constant('remove'),
        fc.constant('double'),
      ),
    ),
    { minLength: 1, maxLength: 2 },
  )
  .map((changes): GgufContents => {
    const tensors = [...contents.tensors];
    for (const [at, change] of changes) {
      const index = at % tensors.length;
      if (change === 'remove') tensors.splice(index, 1);
      else if (change === 'double') tensors.push(tensors[index]!);
      else tensors[index] = { ...tensors[index]!, ...(change as Partial<GgufTensor>) };
    }
    return { ...contents, tensors };
  });

/** A damaged file; a failure prints its beginning alone. */
interface Damaged {
  readonly bytes: Uint8Array;
}

const damaged: fc.Arbitrary<Damaged> = fc
  .oneof(
    { weight: 3, arbitrary: byteDamage },
    { weight: 2, arbitrary: metadataDamage.map(gguf) },
    { weight: 2, arbitrary: tensorDamage.map(gguf) },
  )
  .map((bytes) => {
    const preview = JSON.stringify(new TextDecoder('latin1').decode(bytes.subarray(0, 1500)));
    return Object.defineProperty({ bytes }, fc.toStringMethod, { value: () => `${bytes.length} bytes: ${preview}` });
  });

describe('a damaged GGUF file', () => {
  it('works or fails with a StetError, within its budget', async () => {
    expect(await survive(intact)).toBe('works');
    const outcomes = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(damaged, async ({ bytes }) => {
        const outcome = await survive(bytes);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }),
      { numRuns: 1000, seed: 1234, endOnFailure: true },
    );
    // The damage must reach every part of the loader, or the test shows nothing.
    for (const code of [
      'BAD_GGUF',
      'BAD_CONFIG',
      'UNKNOWN_ARCHITECTURE',
      'MISSING_TENSOR',
      'BAD_TENSOR',
      'BAD_WEIGHTS',
      'BAD_TOKENIZER',
      'BAD_CHAT_TEMPLATE',
    ]) {
      expect([...outcomes.keys()], code).toContain(`STET_ERR_${code}`);
    }
    expect(outcomes.get('works')).toBeGreaterThan(20);
  });

  it('cut at every length is refused', async () => {
    const lengths = new Set([
      ...Array(200).keys(),
      ...Array.from({ length: 200 }, (_, i) => Math.floor((i * intact.length) / 200)),
    ]);
    for (const length of lengths) {
      expect(await survive(intact.slice(0, length)), `${length} bytes`).toBe('STET_ERR_BAD_GGUF');
    }
  });
});
