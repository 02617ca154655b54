import { describe, expect, it } from 'vitest';
import { ggmlType, supportedTypes } from '../src/gguf/types/ggml-types.js';
import { half } from '../src/gguf/types/half.js';
import type { TensorType } from '../src/weights/stored-tensor.js';
import { decodeAll } from './support/gguf-writer.js';
import { hasSharedModels, needsSharedModels, readSharedJson } from './support/shared-models.js';
import vectors from './vectors/gguf-blocks.json' with { type: 'json' };

/** Blocks of a type with the values that the reference, gguf-py, gives them. */
interface BlockVectors {
  readonly type: string;
  readonly ggmlType: number;
  readonly blockValues: number;
  readonly blockBytes: number;
  readonly bytesBase64: string;
  readonly valuesF32Base64: string;
}

const bytesOf = (base64: string): Uint8Array => Uint8Array.from(Buffer.from(base64, 'base64'));

function decodableType(number: number): TensorType {
  const type = ggmlType(number);
  if (!type || 'removed' in type || !type.decode) throw new Error(`type ${number} cannot be decoded`);
  return type;
}

function expectReferenceBits(golden: BlockVectors): void {
  const type = decodableType(golden.ggmlType);
  expect(type).toMatchObject({
    name: golden.type,
    blockValues: golden.blockValues,
    blockBytes: golden.blockBytes,
  });
  const bytes = bytesOf(golden.bytesBase64);
  const expected = new Uint32Array(bytesOf(golden.valuesF32Base64).buffer);
  const values = decodeAll(type, bytes);
  const bits = new Uint32Array(values.buffer);
  expect(bits.length).toBe(expected.length);
  const firstDifference = bits.findIndex((word, i) => word !== expected[i]);
  expect(
    firstDifference,
    `value ${firstDifference} is ${values[firstDifference]}, the reference has ${new Float32Array(expected.buffer)[firstDifference]}`,
  ).toBe(-1);
  // The same from the middle of a larger buffer, at an odd place.
  const shifted = new Uint8Array(bytes.length + 1);
  shifted.set(bytes, 1);
  expect(new Uint32Array(decodeAll(type, shifted.subarray(1)).buffer)).toEqual(bits);
}

describe('a block of a GGUF type', () => {
  it('is there for every type that is supported', () => {
    expect(vectors.types.map(({ type }) => type).sort()).toEqual(supportedTypes().sort());
  });

  it.each(vectors.types)('of type $type has the values of the reference, bit for bit', expectReferenceBits);

  const shared = hasSharedModels ? readSharedJson<{ types: BlockVectors[] }>('gguf-blocks.json').types : [];
  describe.skipIf(!hasSharedModels)(`of the shared blocks${needsSharedModels}`, () => {
    it('is there for every type with blocks that is supported', () => {
      expect(shared.map(({ type }) => type).sort()).toEqual(
        supportedTypes()
          .filter((name) => name !== 'F32')
          .sort(),
      );
    });
    it.each(shared)('of type $type has the values of the reference, bit for bit', expectReferenceBits);
  });
});

describe('a half', () => {
  it('has its value for all 65536 bits', () => {
    const power = (exponent: number) => 2 ** exponent;
    for (let bits = 0; bits < 0x10000; bits++) {
      const sign = bits & 0x8000 ? -1 : 1;
      const exponent = (bits >> 10) & 31;
      const mantissa = bits & 0x3ff;
      const expected =
        exponent === 31
          ? mantissa === 0
            ? sign * Number.POSITIVE_INFINITY
            : Number.NaN
          : exponent === 0
            ? sign * mantissa * power(-24)
            : sign * (1 + mantissa / 1024) * power(exponent - 15);
      if (!Object.is(half(bits), expected)) throw new Error(`half ${bits} is ${half(bits)}, not ${expected}`);
    }
  });
});
