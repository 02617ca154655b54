import type { TensorType } from '../../src/weights/stored-tensor.js';

/** The type of a metadata value, as the file names it by number. */
const VALUE_TYPES = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

type ScalarType = Exclude<keyof typeof VALUE_TYPES, 'array'>;
type Scalar = string | number | bigint | boolean;

/** `[type, value]`, or `[[type], values]` for an array. */
export type TypedValue = readonly [ScalarType, Scalar] | readonly [readonly [ScalarType], readonly Scalar[]];

export interface GgufTensor {
  readonly name: string;
  /** Number of the type. */
  readonly type: number;
  /** Outermost first. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export interface GgufContents {
  readonly metadata: Readonly<Record<string, TypedValue>>;
  readonly tensors: readonly GgufTensor[];
  /** By default 3. */
  readonly version?: number;
  /** Of the data; must be `general.alignment` where that is given. 32 by default. */
  readonly alignment?: number;
}

/** The bytes of a GGUF file. */
export function gguf({ metadata, tensors, version = 3, alignment = 32 }: GgufContents): Uint8Array {
  const writer = new ByteWriter();
  writer.ascii('GGUF').number('u32', version);
  writer.number('u64', BigInt(tensors.length)).number('u64', BigInt(Object.keys(metadata).length));
  for (const [key, value] of Object.entries(metadata)) writeEntry(writer, key, value);
  let offset = 0;
  for (const { name, type, shape, bytes } of tensors) {
    writer.string(name).number('u32', shape.length);
    for (const size of [...shape].reverse()) writer.number('u64', BigInt(size));
    writer.number('u32', type).number('u64', BigInt(offset));
    offset += Math.ceil(bytes.length / alignment) * alignment;
  }
  for (const { bytes } of tensors) writer.align(alignment).bytes(bytes);
  return writer.align(alignment).finish();
}

function writeEntry(writer: ByteWriter, key: string, [type, value]: TypedValue): void {
  writer.string(key);
  if (typeof type === 'string') {
    writer.number('u32', VALUE_TYPES[type]).scalar(type, value as Scalar);
    return;
  }
  const values = value as readonly Scalar[];
  writer.number('u32', VALUE_TYPES.array).number('u32', VALUE_TYPES[type[0]]).number('u64', BigInt(values.length));
  for (const entry of values) writer.scalar(type[0], entry);
}

const NUMBERS = {
  u8: (view: DataView, value: number) => view.setUint8(0, value),
  i8: (view: DataView, value: number) => view.setInt8(0, value),
  u16: (view: DataView, value: number) => view.setUint16(0, value, true),
  i16: (view: DataView, value: number) => view.setInt16(0, value, true),
  u32: (view: DataView, value: number) => view.setUint32(0, value, true),
  i32: (view: DataView, value: number) => view.setInt32(0, value, true),
  f32: (view: DataView, value: number) => view.setFloat32(0, value, true),
  f64: (view: DataView, value: number) => view.setFloat64(0, value, true),
  u64: (view: DataView, value: number) => view.setBigUint64(0, BigInt(value), true),
  i64: (view: DataView, value: number) => view.setBigInt64(0, BigInt(value), true),
} as const;

const SIZES = { u8: 1, i8: 1, u16: 2, i16: 2, u32: 4, i32: 4, f32: 4, f64: 8, u64: 8, i64: 8 } as const;

/** Little-endian bytes that grow. */
export class ByteWriter {
  readonly #parts: Uint8Array[] = [];
  length = 0;

  bytes(bytes: Uint8Array): this {
    this.#parts.push(bytes);
    this.length += bytes.length;
    return this;
  }

  ascii(text: string): this {
    return this.bytes(Uint8Array.from(text, (character) => character.charCodeAt(0)));
  }

  number(type: keyof typeof NUMBERS, value: number | bigint): this {
    const bytes = new Uint8Array(SIZES[type]);
    NUMBERS[type](new DataView(bytes.buffer), value as number);
    return this.bytes(bytes);
  }

  string(text: string): this {
    const bytes = new TextEncoder().encode(text);
    return this.number('u64', BigInt(bytes.length)).bytes(bytes);
  }

  scalar(type: ScalarType, value: Scalar): this {
    if (type === 'string') return this.string(value as string);
    if (type === 'bool') return this.number('u8', value ? 1 : 0);
    return this.number(type, value as number | bigint);
  }

  align(alignment: number): this {
    return this.bytes(new Uint8Array((alignment - (this.length % alignment)) % alignment));
  }

  finish(): Uint8Array {
    const result = new Uint8Array(this.length);
    let at = 0;
    for (const part of this.#parts) {
      result.set(part, at);
      at += part.length;
    }
    return result;
  }
}

/** Values of a whole tensor of a type. */
export function decodeAll(type: TensorType, bytes: Uint8Array): Float32Array {
  const values = new Float32Array((bytes.length / type.blockBytes) * type.blockValues);
  type.decode!(bytes, values);
  return values;
}
