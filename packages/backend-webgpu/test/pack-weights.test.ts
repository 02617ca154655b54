import { describe, expect, it } from 'vitest';
import { packBf16 } from '../src/weights/pack-bf16.js';
import { packQ4 } from '../src/weights/pack-q4.js';
import { packQ8 } from '../src/weights/pack-q8.js';
import type { PackedArray, PackedPart } from '../src/weights/packed-weight.js';
import { rowRanges } from '../src/weights/upload-weight.js';
import { Random } from './support/random.js';

const ROWS = 37;
const parts: readonly (readonly [number, number])[] = [
  [0, ROWS],
  [0, 16],
  [16, 21],
  [36, 1],
];

/** The array as the device has it, packed in uneven pieces. */
function packed({ unitCount, rowCount, wordsPerUnit, pack }: PackedArray): Uint8Array {
  const words = new Int32Array(unitCount * rowCount * wordsPerUnit);
  const step = 3;
  const piece = new Int32Array(step * rowCount * wordsPerUnit).fill(-1);
  for (let first = 0; first < unitCount; first += step) {
    const count = Math.min(step, unitCount - first);
    pack(first, count, piece);
    words.set(piece.subarray(0, count * rowCount * wordsPerUnit), first * rowCount * wordsPerUnit);
  }
  return new Uint8Array(words.buffer);
}

/** The same values at an address that is not a multiple of 4. */
function displaced<T extends Uint8Array | Int8Array | Uint16Array>(values: T): T {
  const size = values.BYTES_PER_ELEMENT;
  const buffer = new ArrayBuffer(values.byteLength + 2);
  const copy = new (values.constructor as new (buffer: ArrayBuffer, offset: number, length: number) => T)(
    buffer,
    2,
    values.byteLength / size,
  );
  copy.set(values);
  return copy;
}

const scalesOf = (part: PackedPart): Uint8Array => packed(part.scales!);

describe.each([1, 7, 8, 9, 32, 65, 96, 301])('weights of %d columns', (columns) => {
  const random = new Random(columns);
  const blockCount = Math.ceil(columns / 32);
  const places = parts.flatMap(([firstRow, rowCount]) =>
    Array.from({ length: rowCount }, (_, n) => ({ firstRow, rowCount, n })),
  );

  it.each(['aligned', 'displaced'])('lie in octets of bf16, zeros past the row, when %s', (address) => {
    const values = Uint16Array.from({ length: ROWS * columns }, () => random.between(0, 65535));
    const bits = address === 'displaced' ? displaced(values) : values;
    const octetCount = Math.ceil(columns / 8);
    const matrix = packBf16(bits, columns);
    expect(matrix.rowBytes).toBe(octetCount * 16);
    for (const { firstRow, rowCount, n } of places) {
      const data = new Uint16Array(packed(matrix.part(firstRow, rowCount).data).buffer);
      const row = Array.from(
        { length: octetCount * 8 },
        (_, k) => data[(Math.floor(k / 8) * rowCount + n) * 8 + (k % 8)],
      );
      const expected = Array.from(values.subarray((firstRow + n) * columns, (firstRow + n + 1) * columns));
      expect(row).toEqual([...expected, ...Array(octetCount * 8 - columns).fill(0)]);
    }
  });

  it.each(['aligned', 'displaced'])('lie in halves of blocks of q8 when %s', (address) => {
    const quants = Int8Array.from({ length: ROWS * blockCount * 32 }, () => random.between(-127, 127));
    const scales = random.floats(ROWS * blockCount, 1);
    const matrix = packQ8(address === 'displaced' ? displaced(quants) : quants, scales, columns);
    expect(matrix.rowBytes).toBe(blockCount * 32);
    for (const { firstRow, rowCount, n } of places) {
      const part = matrix.part(firstRow, rowCount);
      const data = new Int8Array(packed(part.data).buffer);
      const row = Array.from(
        { length: blockCount * 32 },
        (_, k) => data[(Math.floor(k / 16) * rowCount + n) * 16 + (k % 16)],
      );
      const source = (firstRow + n) * blockCount;
      expect(row).toEqual(Array.from(quants.subarray(source * 32, (source + blockCount) * 32)));
      const floats = new Float32Array(scalesOf(part).buffer);
      const rowScales = Array.from({ length: blockCount }, (_, b) => floats[b * rowCount + n]);
      expect(rowScales).toEqual(Array.from(scales.subarray(source, source + blockCount)));
    }
  });

  it.each(['aligned', 'displaced'])('lie in blocks of q4 with scale and centre in one word when %s', (address) => {
    const nibbles = Uint8Array.from({ length: ROWS * blockCount * 16 }, () => random.between(0, 255));
    const scales = Uint16Array.from({ length: ROWS * blockCount }, () => random.between(0, 65535));
    const centres = Uint16Array.from({ length: ROWS * blockCount }, () => random.between(0, 65535));
    const bytes = address === 'displaced' ? displaced(nibbles) : nibbles;
    const matrix = packQ4({ kind: 'q4', nibbles: bytes, scales, centres }, columns);
    expect(matrix.rowBytes).toBe(blockCount * 16);
    for (const { firstRow, rowCount, n } of places) {
      const part = matrix.part(firstRow, rowCount);
      const data = packed(part.data);
      const row = Array.from(
        { length: blockCount * 16 },
        (_, k) => data[(Math.floor(k / 16) * rowCount + n) * 16 + (k % 16)],
      );
      const source = (firstRow + n) * blockCount;
      expect(row).toEqual(Array.from(nibbles.subarray(source * 16, (source + blockCount) * 16)));
      const pairs = new Uint32Array(scalesOf(part).buffer);
      for (let b = 0; b < blockCount; b++) {
        const pair = pairs[b * rowCount + n]!;
        expect([pair & 0xffff, pair >>> 16]).toEqual([scales[source + b], centres[source + b]]);
      }
    }
  });
});

describe('the parts of a matrix', () => {
  it('are one where all rows fit', () => {
    expect(rowRanges(1000, 1000)).toEqual([[0, 1000]]);
    expect(rowRanges(5, 1_000_000)).toEqual([[0, 5]]);
  });

  it('are about equal and begin at multiples of 64', () => {
    expect(rowRanges(1000, 700)).toEqual([
      [0, 512],
      [512, 488],
    ]);
  });

  it('cover every row once, whatever fits', () => {
    for (let most = 0; most < 300; most++) {
      const ranges = rowRanges(257, most);
      let next = 0;
      for (const [first, count] of ranges) {
        expect(first).toBe(next);
        expect(count).toBeGreaterThan(0);
        expect(count).toBeLessThanOrEqual(Math.max(1, most));
        next += count;
      }
      expect(next).toBe(257);
    }
  });
});
