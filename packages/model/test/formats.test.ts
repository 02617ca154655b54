import { formatsOf, type WeightData, type WeightFormat, type WeightSpec, weightBytes } from '@stet/backend';
import { centreQ4, encodeBf16, encodeQ4, fromBits } from '@stet/backend/numerics';
import {
  type FormatOption,
  floatTypes,
  type LoadedModel,
  loadModel,
  memoryNeeded,
  memorySource,
  type StoredTensor,
  type TensorRows,
  type TensorType,
  tensorWeights,
} from '@stet/model';
import { describe, expect, it } from 'vitest';
import { loadGguf } from '../src/gguf/load-gguf.js';
import { Q4_0, Q4_1, Q8_0 } from '../src/gguf/types/blocks-of-32.js';
import { Q4_K, Q6_K } from '../src/gguf/types/blocks-of-256.js';
import { unpairedRow } from '../src/weights/read-matrix.js';
import { convert, familyCases, familyTensors } from './support/gguf-families.js';
import { decodeAll, type GgufContents, type GgufTensor, gguf } from './support/gguf-writer.js';
import { loadSmallModel } from './support/load-small-model.js';
import { jsonBytes, safetensors, smallConfig, smallTensor, smallTensors } from './support/small-model.js';

type Q4Data = WeightData & { kind: 'q4' };
type Matrix = WeightSpec & { kind: 'matrix' };

const FILE = 'weights.bin';
const FOUR_BIT_TYPES: readonly TensorType[] = [Q4_0, Q4_1, Q4_K];

/** Pseudo-random bytes of halves below 2, whichever byte of a block they are in. */
function randomBytes(length: number): Uint8Array {
  let seed = length;
  return Uint8Array.from({ length }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
    return (((seed >>> 16) & 0xff) % 64) | ((seed >>> 9) & 0x80);
  });
}

const tensorBytes = (type: TensorType, values: number): Uint8Array =>
  randomBytes((values / type.blockValues) * type.blockBytes);

/** The integers of a row-major matrix in the format, by element. */
function quantsOf(data: Q4Data): number[] {
  const quants: number[] = [];
  for (let at = 0; at < data.nibbles.length; at += 16) {
    const block = data.nibbles.subarray(at, at + 16);
    quants.push(...Array.from(block, (pair) => pair & 15), ...Array.from(block, (pair) => pair >> 4));
  }
  return quants;
}

function split(type: TensorType, bytes: Uint8Array): Q4Data & { exactScales: Float32Array; exactMinima: Float32Array } {
  const blocks = ((bytes.length / type.blockBytes) * type.blockValues) / 32;
  const nibbles = new Uint8Array(blocks * 16);
  const [exactScales, exactMinima] = [new Float32Array(blocks), new Float32Array(blocks)];
  type.splitQ4!(bytes, nibbles, exactScales, exactMinima);
  const target = { nibbles, scales: new Uint16Array(blocks), centres: new Uint16Array(blocks) };
  centreQ4('w', { scales: exactScales, minima: exactMinima }, target);
  return { kind: 'q4', ...target, exactScales, exactMinima };
}

describe('tensor types of four-bit integers', () => {
  it.each(FOUR_BIT_TYPES)('$name splits into integers, scales and minima that give its values to the bit', (type) => {
    const bytes = tensorBytes(type, 256 * 40);
    const values = decodeAll(type, bytes);
    const { exactScales, exactMinima, ...data } = split(type, bytes);
    const quants = quantsOf(data);
    const seen = quants.map((quant, i) => {
      const block = i >> 5;
      return Math.fround(quant * exactScales[block]! + exactMinima[block]!) + 0;
    });
    expect(seen).toEqual(Array.from(values, (value) => value + 0));
    expect(new Set(quants).size).toBe(16);
    expect(exactScales.some((scale) => scale < 0)).toBe(true);
  });

  it('are no others: five bits, eight, a table of values or floats', () => {
    for (const type of [Q8_0, Q6_K, floatTypes.F32, floatTypes.F16, floatTypes.BF16]) {
      expect(type, type.name).not.toHaveProperty('splitQ4');
    }
  });
});

describe('a matrix of four-bit integers in q4', () => {
  const columns = 256;
  const spec = (rows: number, format: WeightFormat = 'q4'): Matrix => ({
    kind: 'matrix',
    name: 'w',
    rows,
    columns,
    format,
  });

  /** The bytes behind 3 others, so that they lie at an odd place. */
  function stored(type: TensorType, rows: number, bytes = tensorBytes(type, rows * columns)) {
    const tensor: StoredTensor = {
      name: 't',
      file: FILE,
      type,
      shape: [rows, columns],
      start: 3,
      end: 3 + bytes.length,
    };
    const source = memorySource({ [FILE]: Uint8Array.from([1, 2, 3, ...bytes]) });
    const read = (weight: WeightSpec, place: Omit<TensorRows, 'tensor'> = {}): Promise<WeightData> =>
      tensorWeights(source, new Map([['t', tensor]]), () => ({ tensor: 't', ...place })).read(weight);
    return { bytes, read };
  }

  it.each(FOUR_BIT_TYPES)('keeps the integers of $name, in any slice and order of rows', async (type) => {
    const [tensorRows, firstRow, rows, headSize] = [40, 5, 24, 8];
    const { bytes, read } = stored(type, tensorRows);
    const rowBytes = bytes.length / tensorRows;
    const slice = { firstRow, tensorRows };
    const own = bytes.subarray(firstRow * rowBytes, (firstRow + rows) * rowBytes);
    const { exactScales, exactMinima, ...plain } = split(type, own);
    expect(await read(spec(rows), { slice })).toEqual(plain);

    const paired = new Uint8Array(own.length);
    for (let row = 0; row < rows; row++) {
      paired.set(own.subarray(row * rowBytes, (row + 1) * rowBytes), unpairedRow(row, headSize) * rowBytes);
    }
    const { exactScales: _scales, exactMinima: _minima, ...inOrder } = split(type, paired);
    const data = await read(spec(rows), { slice, headRows: { order: 'pairs', headSize } });
    expect(data).toEqual(inOrder);
    expect(data).not.toEqual(plain);
  });

  it('larger than what is read at once has the same bits, heads in pairs too', async () => {
    const wide = 8192;
    const rows = 5120;
    const type = Q4_1;
    const bytes = randomBytes(((rows * wide) / 32) * 20);
    const tensor: StoredTensor = { name: 't', file: FILE, type, shape: [rows, wide], start: 0, end: bytes.length };
    const reads: number[] = [];
    const memory = memorySource({ [FILE]: bytes });
    const source = {
      ...memory,
      read: (file: string, start: number, end: number) => {
        reads.push(end - start);
        return memory.read(file, start, end);
      },
    };
    const headRows = { order: 'pairs', headSize: 96 } as const;
    const weight: Matrix = { kind: 'matrix', name: 'w', rows: 5088, columns: wide, format: 'q4' };
    const place = { tensor: 't', slice: { firstRow: 0, tensorRows: rows }, headRows };
    const data = (await tensorWeights(source, new Map([['t', tensor]]), () => place).read(weight)) as Q4Data;
    expect(reads.length).toBeGreaterThan(1);
    const rowBytes = (wide / 32) * 20;
    for (const row of [0, 1, 95, 96, 2047, 3071, 5087]) {
      const { nibbles, scales, centres } = split(type, bytes.subarray(row * rowBytes, (row + 1) * rowBytes));
      const to = unpairedRow(row, 96) * (wide / 32);
      const end = to + wide / 32;
      expect(data.nibbles.subarray(to * 16, end * 16)).toEqual(nibbles);
      expect(data.scales.subarray(to, end)).toEqual(scales);
      expect(data.centres.subarray(to, end)).toEqual(centres);
    }
  });

  it('is fitted anew from the values of any other type', async () => {
    for (const type of [Q8_0, floatTypes.BF16, floatTypes.F32]) {
      const { bytes, read } = stored(type, 6);
      const values = decodeAll(type, bytes);
      expect(await read(spec(6)), type.name).toEqual({ kind: 'q4', ...encodeQ4('w', values, 6, columns) });
    }
  });

  it('refuses a scale or centre that is not finite or above 2^10, and names the tensor', async () => {
    const withHalf = (at: number, half: number): Uint8Array => {
      const bytes = tensorBytes(Q4_1, 2 * columns);
      bytes.set([half & 255, half >> 8], 20 * 9 + at);
      return bytes;
    };
    for (const [at, half, what] of [
      [0, 0x7c00, /t: w, scales of blocks: element 9 is not finite or above 2\^10/],
      [2, 0x7e00, /t: w, centres of blocks: element 9 is not finite/],
      [2, 0xe405, /t: w, centres of blocks: element 9 is not finite or above/],
    ] as const) {
      const { read } = stored(Q4_1, 2, withHalf(at, half));
      const reading = read(spec(2));
      await expect(reading, `${half}`).rejects.toMatchObject({
        code: 'STET_ERR_BAD_WEIGHTS',
        message: expect.stringMatching(what),
      });
    }
    await expect(stored(Q4_1, 2, withHalf(2, 0xe400)).read(spec(2))).resolves.toMatchObject({ kind: 'q4' });
  });

  it('of Q4_0 has scales of half the digits and centres of 0', async () => {
    const bytes = tensorBytes(Q4_0, columns);
    bytes.set([0, 0], 18);
    const { exactScales } = split(Q4_0, bytes);
    const data = (await stored(Q4_0, 1, bytes).read(spec(1))) as Q4Data;
    expect(data.scales).toEqual(encodeBf16('s', exactScales));
    expect(data.centres).toEqual(new Uint16Array(columns / 32));
    expect(data.scales[1]).toBe(0);
  });

  it('has values whose mean over a block is that of the file, within the rounding of a centre', async () => {
    for (const type of [Q4_1, Q4_K]) {
      const rows = 64;
      const { bytes, read } = stored(type, rows);
      const values = decodeAll(type, bytes);
      const data = (await read(spec(rows))) as Q4Data;
      const quants = quantsOf(data);
      const value = (bits: number): number => fromBits(bits << 16);
      for (const [block, scale] of data.scales.entries()) {
        const centre = value(data.centres[block]!);
        let difference = 0;
        for (let i = block * 32; i < block * 32 + 32; i++) {
          difference += value(scale) * (quants[i]! - 8) + centre - values[i]!;
        }
        // The decoded values are rounded to f32 themselves.
        const limit = Math.abs(centre) * 2 ** -8 + 2 ** -20;
        expect(Math.abs(difference / 32), `${type.name}, block ${block}`).toBeLessThanOrEqual(limit);
      }
    }
  });
});

describe('the formats of a model', () => {
  const [BF16, F32, F16] = [30, 0, 1];
  const [q4_0, q4_1, q8_0] = [2, 3, 8];

  /** Sizes that whole blocks divide. */
  const wide = {
    ...familyCases[0]!.config,
    hidden_size: 64,
    intermediate_size: 96,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 16,
    num_hidden_layers: 2,
    tie_word_embeddings: true,
  };

  /** A small Llama with matrices of other types. */
  function withTypes(typeOf: (name: string) => number): GgufContents {
    const family = { ...familyCases[0]!, config: wide };
    const contents = convert(family, familyTensors(wide), 'BF16');
    const tensors = contents.tensors.map((tensor): GgufTensor => {
      if (tensor.shape.length !== 2) return tensor;
      const type = typeOf(tensor.name);
      const count = tensor.shape.reduce((product, size) => product * size, 1);
      const byType: Record<number, number> = {
        [q4_0!]: 18 / 32,
        [q4_1!]: 20 / 32,
        [q8_0!]: 34 / 32,
        [F32!]: 4,
        [F16!]: 2,
        [BF16!]: 2,
      };
      return { ...tensor, type, bytes: randomBytes(count * byType[type]!) };
    });
    return { ...contents, tensors };
  }

  const load = (contents: GgufContents, format?: FormatOption): Promise<LoadedModel> =>
    loadGguf(memorySource({ 'small.gguf': gguf(contents) }), 'small.gguf', {
      tokenizer: 'none',
      ...(format && { format }),
    });

  const formatsByName = ({ plan }: LoadedModel): Map<string, string> =>
    new Map(plan.weights.flatMap((spec) => (spec.kind === 'matrix' ? [[spec.name, spec.format] as const] : [])));

  it('are, in a file of four bits, q4 where it has four bits and q8 elsewhere, and say so', async () => {
    const model = await load(
      withTypes((name) => (name === 'token_embd.weight' ? q8_0! : name.includes('attn_v') ? F16! : q4_1!)),
      'auto',
    );
    for (const [name, format] of formatsByName(model)) {
      expect(format, name).toBe(/embed|v_proj/.test(name) ? 'q8' : 'q4');
    }
    expect(model.formats).toEqual([
      { format: 'q4', matrixCount: 12, why: 'Q4_1 keeps its integers' },
      { format: 'q8', matrixCount: 2, why: 'F16 among quantized tensors' },
      { format: 'q8', matrixCount: 1, why: 'Q8_0 is rounded to eight bits' },
    ]);
    for (const spec of model.plan.weights) {
      const { kind } = await model.weights.read(spec);
      expect(kind).toBe(spec.kind === 'vector' ? 'vector' : spec.format);
    }
    await model.close();
  });

  it('take the memory that the plan says, mixed or not', async () => {
    for (const option of ['auto', 'bf16', 'q8', 'q4'] as const) {
      const model = await load(
        withTypes((name) => (name.includes('ffn') ? q4_0! : q8_0!)),
        option,
      );
      let bytes = 0;
      for (const spec of model.plan.weights) bytes += weightBytes(await model.weights.read(spec));
      expect(memoryNeeded(model.plan).weightBytes).toBe(bytes);
      if (option !== 'auto') expect(memoryNeeded(model.plan, option).weightBytes).toBe(bytes);
      await model.close();
    }
  });

  it('are bf16 for files of floats', async () => {
    for (const [type, why] of [
      [BF16, 'BF16 as it is'],
      [F32, 'F32 is rounded to bf16'],
      [F16, 'F16 is rounded to bf16'],
    ] as const) {
      const model = await load(
        withTypes(() => type!),
        'auto',
      );
      expect(model.formats).toEqual([{ format: 'bf16', matrixCount: 15, why }]);
      expect(formatsOf(model.plan)).toEqual(['bf16']);
      await model.close();
    }
    const [first, ...others] = smallTensors().map(([name, shape]) => smallTensor(name, shape));
    const wide = { ...first!, dtype: 'F32', bytes: new Uint8Array(2 * first!.bytes.length) };
    const folder = { 'config.json': jsonBytes(smallConfig()), 'model.safetensors': safetensors([wide, ...others]) };
    const model = await loadModel(memorySource(folder), { tokenizer: 'none', format: 'auto' });
    expect(model.formats).toEqual([
      { format: 'bf16', matrixCount: 14, why: 'BF16 as it is' },
      { format: 'bf16', matrixCount: 1, why: 'F32 is rounded to bf16' },
    ]);
    await model.close();
  });

  it('are what was asked for in all matrices, four-bit integers kept where there are some', async () => {
    const contents = withTypes((name) => (name === 'token_embd.weight' ? q8_0! : q4_1!));
    for (const format of ['bf16', 'q8', 'q4'] as const) {
      const model = await load(contents, format);
      expect(formatsOf(model.plan)).toEqual([format]);
      expect(model.formats).toEqual(
        format === 'q4'
          ? [
              { format, matrixCount: 14, why: 'asked for; Q4_1 keeps its integers' },
              { format, matrixCount: 1, why: 'asked for' },
            ]
          : [{ format, matrixCount: 15, why: 'asked for' }],
      );
      await model.close();
    }
    const [auto, asked] = [await load(contents, 'auto'), await load(contents, 'q4')];
    const gate = auto.plan.weights.find(({ name }) => name.endsWith('gate_proj.weight'))!;
    expect(await auto.weights.read(gate)).toEqual(await asked.weights.read(gate));
  });

  it('are auto by default', async () => {
    expect((await load(withTypes(() => q4_0!))).formats).toEqual([
      { format: 'q4', matrixCount: 15, why: 'Q4_0 keeps its integers' },
    ]);
    expect((await loadSmallModel()).formats).toEqual([{ format: 'bf16', matrixCount: 15, why: 'BF16 as it is' }]);
  });
});
