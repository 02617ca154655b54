import { quote } from '../../files/quote.js';
import type { GgufMetadata } from '../metadata-value.js';
import { badTokenizer } from './bad-tokenizer.js';

/** Reads a field of the type that its meaning asks for; undefined where it is absent. */
export function stringField(metadata: GgufMetadata, key: string): string | undefined {
  const value = metadata.get(key);
  if (value === undefined || typeof value === 'string') return value;
  return wrongType(key, value, 'a string');
}

export function booleanField(metadata: GgufMetadata, key: string): boolean | undefined {
  const value = metadata.get(key);
  if (value === undefined || typeof value === 'boolean') return value;
  return wrongType(key, value, 'true or false');
}

/** A token id that the vocabulary has. */
export function idField(metadata: GgufMetadata, key: string, tokenCount: number): number | undefined {
  const value = metadata.get(key);
  if (value === undefined) return undefined;
  if (typeof value !== 'number' && typeof value !== 'bigint') wrongType(key, value, 'a token id');
  const id = Number(value);
  if (!Number.isInteger(id) || id < 0 || id >= tokenCount)
    badTokenizer(`says that ${key} is ${value}, and it has ${tokenCount} tokens`);
  return id;
}

export function stringsField(metadata: GgufMetadata, key: string): readonly string[] | undefined {
  const value = metadata.get(key);
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === 'string'))
    wrongType(key, value, 'a list of strings');
  return value as readonly string[];
}

/** A list of 32-bit numbers as long as the vocabulary. */
export function numbersField(
  metadata: GgufMetadata,
  key: string,
  count: number,
): Int32Array | Uint32Array | Float32Array | undefined {
  const value = metadata.get(key);
  if (value === undefined) return undefined;
  if (!(value instanceof Int32Array || value instanceof Uint32Array || value instanceof Float32Array))
    wrongType(key, value, 'a list of 32-bit numbers');
  if (value.length !== count) badTokenizer(`has ${value.length} entries in ${key} for ${count} tokens`);
  return value;
}

function wrongType(key: string, value: unknown, wanted: string): never {
  const given = typeof value === 'object' ? 'a list of something else' : quote(String(value));
  return badTokenizer(`says that ${key} is ${given}, it should be ${wanted}`);
}
