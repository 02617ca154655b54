/**
 * A value of a GGUF file's metadata. 64-bit integers are `bigint` (and `BigInt64Array`, `BigUint64Array` in arrays),
 * numbers of every other type `number`; an array of numbers is the typed array of its element type.
 */
export type GgufValue = string | number | bigint | boolean | GgufArray;

export type GgufArray =
  | readonly string[]
  | readonly boolean[]
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/** The key-value half of a GGUF header, checked by its reader as far as types and lengths go, not what they mean. */
export interface GgufMetadata {
  get(key: string): GgufValue | undefined;
  /** All keys, in the order of the file. */
  keys(): Iterable<string>;
}
