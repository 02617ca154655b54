import { assert } from '@stet/backend';
import { throwIfAborted } from '../../files/abort.js';
import type { FileSource } from '../../files/source.js';
import { badGguf } from '../gguf-error.js';
import { MAX_HEADER_BYTES } from './limits.js';

const FIRST_READ_BYTES = 256 * 2 ** 10;
const MAX_READ_BYTES = 8 * 2 ** 20;

/**
 * Walks through the bytes of a header, forward only. `need` is awaited before bytes are taken; it reads the file in
 * ranges that grow, each byte once, and never more than the file has, so that a number from the file is checked
 * against what is there before anything is sized by it. Not reusable after an error.
 */
export class HeaderCursor {
  readonly file: string;
  /** Bytes of the whole file. */
  readonly fileSize: number;
  readonly #source: FileSource;
  readonly #signal: AbortSignal | undefined;
  #bytes = new Uint8Array(0);
  #view = new DataView(this.#bytes.buffer);
  /** Place of `#bytes[0]` in the file. */
  #base = 0;
  #at = 0;
  #readBytes = FIRST_READ_BYTES;

  constructor(source: FileSource, file: string, fileSize: number, signal: AbortSignal | undefined) {
    this.#source = source;
    this.file = file;
    this.fileSize = fileSize;
    this.#signal = signal;
  }

  /** Place of the next byte in the file. */
  get position(): number {
    return this.#base + this.#at;
  }

  /** Bytes between here and the end of the file. */
  get remaining(): number {
    return this.fileSize - this.position;
  }

  /** Bytes that are there without another read. */
  get loaded(): number {
    return this.#bytes.length - this.#at;
  }

  /** Resolves when `count` bytes can be taken. Rejects with `STET_ERR_BAD_GGUF` where the file or the limit ends. */
  async need(count: number, what: string): Promise<void> {
    if (count <= this.loaded) return;
    if (count > this.remaining) badGguf(this.file, `ends inside its header, at ${what}`);
    if (this.position + count > MAX_HEADER_BYTES)
      badGguf(this.file, `has a header of more than ${MAX_HEADER_BYTES} bytes`);
    throwIfAborted(this.#signal);
    const start = this.#base + this.#bytes.length;
    const missing = count - this.loaded;
    const end = Math.min(start + Math.max(missing, this.#readBytes), this.fileSize);
    const more = await this.#source.read(this.file, start, end);
    assert(more.length === end - start, `a source gave ${more.length} bytes of ${end - start}`);
    const rest = this.#bytes.subarray(this.#at);
    const bytes = new Uint8Array(rest.length + more.length);
    bytes.set(rest);
    bytes.set(more, rest.length);
    this.#base += this.#at;
    this.#at = 0;
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
    this.#readBytes = Math.min(2 * this.#readBytes, MAX_READ_BYTES);
  }

  u8(): number {
    return this.#bytes[this.#advance(1)]!;
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  /** A u64 that counts something: as a number where it is at most `max`, otherwise undefined. */
  count(max: number): number | undefined {
    const at = this.#advance(8);
    const value = this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * 2 ** 32;
    return value <= max ? value : undefined;
  }

  /** The next bytes, as a view that is valid until the next `need`. */
  take(count: number): Uint8Array {
    const at = this.#advance(count);
    return this.#bytes.subarray(at, at + count);
  }

  /** Copies the next bytes to `target`, without a view of their own: most are short, and there are many. */
  takeInto(target: Uint8Array, targetStart: number, count: number): void {
    const at = this.#advance(count);
    const bytes = this.#bytes;
    for (let i = 0; i < count; i++) target[targetStart + i] = bytes[at + i]!;
  }

  #advance(count: number): number {
    assert(count <= this.#bytes.length - this.#at, 'bytes are taken after they were read');
    const at = this.#at;
    this.#at += count;
    return at;
  }
}
