import { badGguf } from '../gguf-error.js';
import type { HeaderCursor } from './header-cursor.js';

/** Bytes of an array's strings that are decoded at once. */
const BATCH_BYTES = 2 ** 20;

/** A u64 length and so many bytes of UTF-8, at most `maxBytes`. Rejects with `STET_ERR_BAD_GGUF`. */
export async function readString(cursor: HeaderCursor, what: string, maxBytes: number): Promise<string> {
  await cursor.need(8, what);
  const length = cursor.count(Math.min(maxBytes, cursor.remaining - 8));
  if (length === undefined)
    badGguf(cursor.file, `${what} has a string that is longer than ${lengthLimit(cursor, maxBytes)}`);
  await cursor.need(length, what);
  return decode(cursor, cursor.take(length), what);
}

/**
 * Strings one after the other. A decoder that is called for each of 100,000 tokens takes longer than all the rest of a
 * header, so their bytes are put together and decoded at once, then cut where each ends. The bytes of all are valid
 * UTF-8, and none begins inside a character, exactly if each is valid by itself.
 */
export async function readStrings(cursor: HeaderCursor, count: number, what: string): Promise<string[]> {
  if (count * 8 > cursor.remaining) badGguf(cursor.file, `ends inside its header, at ${what}`);
  const strings: string[] = [];
  const batch = new StringBatch();
  while (strings.length + batch.count < count) {
    // Asking first saves an await for each of them.
    if (cursor.loaded < 8) await cursor.need(8, what);
    const length = cursor.count(cursor.remaining - 8);
    if (length === undefined) badGguf(cursor.file, `${what} has a string that is longer than the file`);
    if (cursor.loaded < length) await cursor.need(length, what);
    batch.add(cursor, length);
    if (batch.byteCount >= BATCH_BYTES) flush();
  }
  flush();
  return strings;

  function flush(): void {
    if (batch.isBroken) notUtf8(cursor, what);
    const text = decode(cursor, batch.bytes(), what);
    let start = 0;
    for (const length of batch.lengths()) {
      strings.push(text.slice(start, start + length));
      start += length;
    }
    batch.clear();
  }
}

/** Bytes of several strings, and how many UTF-16 units each has. */
class StringBatch {
  byteCount = 0;
  count = 0;
  /** Whether one begins in the middle of a character. */
  isBroken = false;
  #bytes = new Uint8Array(2 ** 16);
  #lengths = new Uint32Array(2 ** 12);

  /** The next string of `length` bytes. */
  add(cursor: HeaderCursor, length: number): void {
    this.#reserve(length);
    const bytes = this.#bytes;
    const start = this.byteCount;
    const end = start + length;
    cursor.takeInto(bytes, start, length);
    if (length > 0 && isContinuation(bytes[start]!)) this.isBroken = true;
    let units = 0;
    for (let i = start; i < end; i++) {
      const byte = bytes[i]!;
      // Every byte that begins a character is a unit; those of four bytes are two.
      if (!isContinuation(byte)) units += byte >= 0xf0 ? 2 : 1;
    }
    this.byteCount = end;
    this.#lengths[this.count++] = units;
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.byteCount);
  }

  lengths(): Uint32Array {
    return this.#lengths.subarray(0, this.count);
  }

  clear(): void {
    this.byteCount = 0;
    this.count = 0;
    this.isBroken = false;
  }

  #reserve(more: number): void {
    if (this.byteCount + more > this.#bytes.length) {
      const bytes = new Uint8Array(Math.max(2 * this.#bytes.length, this.byteCount + more));
      bytes.set(this.#bytes);
      this.#bytes = bytes;
    }
    if (this.count === this.#lengths.length) {
      const lengths = new Uint32Array(2 * this.count);
      lengths.set(this.#lengths);
      this.#lengths = lengths;
    }
  }
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

function decode(cursor: HeaderCursor, bytes: Uint8Array, what: string): string {
  try {
    // A byte order mark is part of the string: vocabularies have tokens that begin with one.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return notUtf8(cursor, what);
  }
}

function notUtf8(cursor: HeaderCursor, what: string): never {
  badGguf(cursor.file, `${what} has a string that is not UTF-8`);
}

function lengthLimit(cursor: HeaderCursor, maxBytes: number): string {
  return maxBytes < cursor.remaining ? `${maxBytes} bytes` : 'the file';
}
