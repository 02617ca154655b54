import { assert } from '@stet/backend';
import { quote } from '../../files/quote.js';
import { badGguf } from '../gguf-error.js';
import type { GgufArray, GgufValue } from '../metadata-value.js';
import type { HeaderCursor } from './header-cursor.js';
import { MAX_ARRAY_LENGTH } from './limits.js';
import { readString, readStrings } from './read-string.js';

/** The types of metadata values by their number in the file. */
const VALUE_TYPES = [
  'u8',
  'i8',
  'u16',
  'i16',
  'u32',
  'i32',
  'f32',
  'bool',
  'string',
  'array',
  'u64',
  'i64',
  'f64',
] as const;

type ValueType = (typeof VALUE_TYPES)[number];
type NumberType = Exclude<ValueType, 'bool' | 'string' | 'array'>;

const NUMBER_ARRAYS = {
  u8: Uint8Array,
  i8: Int8Array,
  u16: Uint16Array,
  i16: Int16Array,
  u32: Uint32Array,
  i32: Int32Array,
  u64: BigUint64Array,
  i64: BigInt64Array,
  f32: Float32Array,
  f64: Float64Array,
} as const;

/** One value of the metadata, its type before it. Rejects with `STET_ERR_BAD_GGUF` that names the key. */
export async function readValue(cursor: HeaderCursor, key: string): Promise<GgufValue> {
  const what = `key ${quote(key)}`;
  const type = await readType(cursor, what);
  switch (type) {
    case 'string':
      return readString(cursor, what, cursor.remaining);
    case 'bool':
      await cursor.need(1, what);
      return bool(cursor, cursor.u8(), what);
    case 'array':
      return readArray(cursor, what);
    default:
      return (await readNumbers(cursor, type, 1, what))[0]!;
  }
}

async function readType(cursor: HeaderCursor, what: string): Promise<ValueType> {
  await cursor.need(4, what);
  const number = cursor.u32();
  return VALUE_TYPES[number] ?? badGguf(cursor.file, `${what} has the unknown type ${number}`);
}

async function readArray(cursor: HeaderCursor, what: string): Promise<GgufArray> {
  const type = await readType(cursor, what);
  await cursor.need(8, what);
  const length =
    cursor.count(MAX_ARRAY_LENGTH) ??
    badGguf(cursor.file, `${what} is an array of more than ${MAX_ARRAY_LENGTH} elements`);
  switch (type) {
    case 'array':
      return badGguf(cursor.file, `${what} is an array of arrays`);
    case 'string':
      return readStrings(cursor, length, what);
    case 'bool': {
      await cursor.need(length, what);
      return Array.from(cursor.take(length), (byte) => bool(cursor, byte, what));
    }
    default:
      return readNumbers(cursor, type, length, what);
  }
}

async function readNumbers(
  cursor: HeaderCursor,
  type: NumberType,
  length: number,
  what: string,
): Promise<Exclude<GgufArray, readonly unknown[]>> {
  const Numbers = NUMBER_ARRAYS[type];
  const byteLength = length * Numbers.BYTES_PER_ELEMENT;
  await cursor.need(byteLength, what);
  // A copy begins at an aligned place. Files and all machines that Stet runs on are little-endian.
  assert(new Uint8Array(Uint16Array.of(1).buffer)[0] === 1, 'this machine is little-endian');
  return new Numbers(cursor.take(byteLength).slice().buffer);
}

function bool(cursor: HeaderCursor, byte: number, what: string): boolean {
  if (byte > 1) badGguf(cursor.file, `${what} has a bool that is ${byte}`);
  return byte === 1;
}
