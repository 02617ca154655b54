import { type FileSource, type LoadedModel, memorySource } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { loadGguf } from '../src/gguf/load-gguf.js';
import { convert, familyCases, familyTensors } from './support/gguf-families.js';
import { type GgufContents, gguf, type TypedValue } from './support/gguf-writer.js';

const family = familyCases[0]!;
const whole = convert(family, familyTensors(family.config), 'BF16');
const names = ['model-00001-of-00003.gguf', 'model-00002-of-00003.gguf', 'model-00003-of-00003.gguf'] as const;

type Files = Record<string, Uint8Array>;
type Keys = Readonly<Record<string, TypedValue>>;

/** The model in three files, as `llama-gguf-split` makes them; `change` may give one of them other contents. */
function split(change: (contents: GgufContents, index: number) => GgufContents = (contents) => contents): Files {
  const third = Math.ceil(whole.tensors.length / 3);
  const parts = names.map((name, index) => {
    const keys: Keys = {
      'split.no': ['u16', index],
      'split.count': ['u16', names.length],
      'split.tensors.count': ['i32', whole.tensors.length],
    };
    const contents = {
      metadata: index === 0 ? { ...whole.metadata, ...keys } : keys,
      tensors: whole.tensors.slice(index * third, (index + 1) * third),
    };
    return [name, gguf(change(contents, index))];
  });
  return Object.fromEntries(parts);
}

const load = (files: Files, name: string): Promise<LoadedModel> =>
  loadGguf(memorySource(files, 'here'), name, { tokenizer: 'none' });

/** Gives the file at `index` other keys. */
const withKeys = (at: number, keys: Readonly<Record<string, TypedValue | undefined>>): Files =>
  split((contents, index) => {
    if (index !== at) return contents;
    const entries = Object.entries({ ...contents.metadata, ...keys });
    return { ...contents, metadata: Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as Keys };
  });

const refusal = (message: RegExp, code = 'STET_ERR_BAD_GGUF') =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe('a model split into GGUF files', () => {
  it.each(names)('is the model that it is in one file, by the name %s', async (name) => {
    const files = split();
    const model = await load({ ...files, 'other.gguf': new Uint8Array(4) }, name);
    const single = await load({ 'one.gguf': gguf(whole) }, 'one.gguf');
    expect(model.plan).toEqual(single.plan);
    for (const spec of single.plan.weights) {
      expect(await model.weights.read(spec), spec.name).toEqual(await single.weights.read(spec));
    }
    expect(model).toMatchObject({ name: 'model', storage: { files: [...names] } });
    expect(model.storage.bytes).toBe(Object.values(files).reduce((sum, bytes) => sum + bytes.length, 0));
    expect(model.digest).toBe((await load(files, names[0])).digest);
  });

  it('with files missing is refused, and the files are named', async () => {
    const files = split();
    await expect(load({ [names[1]]: files[names[1]]! }, names[1])).rejects.toEqual(
      refusal(
        /^model-00002-of-00003\.gguf is one of 3 files; missing in here: model-00001-of-00003\.gguf, model-00003-of-00003\.gguf$/,
        'STET_ERR_MODEL_NOT_FOUND',
      ),
    );
  });

  it('with a great many files missing names some', async () => {
    const name = 'model-00001-of-00900.gguf';
    await expect(load({ [name]: gguf(whole) }, name)).rejects.toEqual(
      refusal(/model-00006-of-00900\.gguf and 894 more$/, 'STET_ERR_MODEL_NOT_FOUND'),
    );
  });

  it.each([
    ['model-00001-of-99999.gguf', /is one of 99999 files, at most 1000 are allowed/],
    ['model-00004-of-00003.gguf', /has a number in its name that is not one of its files/],
    ['model-00000-of-00003.gguf', /has a number in its name that is not one of its files/],
  ])('is refused by the name %s', async (name, message) => {
    await expect(load({ ...split(), [name]: gguf(whole) }, name)).rejects.toEqual(refusal(message));
  });

  it.each<[string, RegExp, Files]>([
    [
      'a file of another number',
      /00002-of-00003\.gguf should be file 1 of 3, .* say 2 of 3/,
      withKeys(1, { 'split.no': ['u16', 2] }),
    ],
    [
      'a file of another count',
      /00003-of-00003\.gguf should be file 2 of 3, .* say 2 of 4/,
      withKeys(2, { 'split.count': ['u16', 4] }),
    ],
    ['a file that says nothing', /should be file 1 of 3, .* say nothing of it/, withKeys(1, { 'split.no': undefined })],
    ['a bad number', /has a bad split\.no/, withKeys(1, { 'split.no': ['string', '1'] })],
    [
      'tensors left out',
      /says that there are 90 tensors in all files, there are \d+/,
      withKeys(0, { 'split.tensors.count': ['i32', 90] }),
    ],
    [
      'a tensor in two files',
      /00002-of-00003\.gguf has the tensor "token_embd\.weight", which is in model-00001-of-00003\.gguf too/,
      split((contents, index) =>
        index === 1 ? { ...contents, tensors: [...contents.tensors, whole.tensors[0]!] } : contents,
      ),
    ],
  ])('with %s is refused', async (_what, message, files) => {
    await expect(load(files, names[0])).rejects.toEqual(refusal(message));
  });

  it('is refused under a name that does not say how many there are', async () => {
    await expect(load({ 'first.gguf': split()[names[0]]! }, 'first.gguf')).rejects.toEqual(
      refusal(/first\.gguf is one of 3 files of a model, but it is not named like model-00001-of-00003\.gguf/),
    );
  });

  it('into one file is a model like any other', async () => {
    const name = 'model-00001-of-00001.gguf';
    const metadata: Keys = { ...whole.metadata, 'split.count': ['u16', 1], 'split.no': ['u16', 0] };
    expect((await load({ [name]: gguf({ ...whole, metadata }) }, name)).name).toBe('model');
    expect((await load({ [name]: gguf(whole) }, name)).name).toBe('model');
  });

  it('closes its source where one of its files is damaged', async () => {
    const files = { ...split(), [names[2]]: new Uint8Array(30) };
    const source = memorySource(files);
    let closed = 0;
    const counting: FileSource = { ...source, close: async () => void closed++ };
    await expect(loadGguf(counting, names[0], { tokenizer: 'none' })).rejects.toEqual(
      refusal(/^model-00003-of-00003\.gguf does not begin with GGUF/),
    );
    expect(closed).toBe(1);
  });
});
