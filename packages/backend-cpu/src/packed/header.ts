import { createHash } from 'node:crypto';

/** Raised where the layout of the header changes. */
const FILE_VERSION = 1;
const MAGIC = Buffer.from('STETPACK', 'latin1');

/** Where the image may begin: a multiple of every page size that systems have, which is quickest to read. */
const ALIGNMENT_BYTES = 64 * 1024;

/** Bytes of the image under one checksum, and of the checksum (native/image.h). */
const SUMMED_BYTES = 2 ** 20;
const SUM_BYTES = 8;

const DIGEST_BYTES = 32;
/** Magic, version, length of the header. */
const PREFIX_BYTES = MAGIC.length + 4 + 4;

/** What a file of packed weights must be for a load that could use it. */
export interface PackedContent {
  /** The same for loads that can share a file, else another. */
  readonly key: string;
  /** (offset, size) of each weight in the image, and the image's size at the end. */
  readonly places: Float64Array;
}

/**
 * The header of a file of packed weights, up to where its image begins:
 *
 *     magic · u32 version · u32 length of the header · SHA-256 of what follows · u32 length, content as JSON · checksums
 *
 * padded with zeros. A reader knows all of it but the checksums and compares it byte by byte; it parses nothing.
 * The checksums are XXH64 of every MiB, which finds damage as quickly as memory is read; SHA-256 would take as long as
 * packing anew. Forgery is kept out by who may write the file.
 */
export class PackedHeader {
  readonly imageBytes: number;
  /** Length of the header, and so where the image begins. */
  readonly bytes: number;
  /** Bytes of all checksums. */
  readonly sumsBytes: number;
  readonly #content: Buffer;

  constructor({ key, places }: PackedContent) {
    this.imageBytes = places.at(-1)!;
    this.sumsBytes = Math.ceil(this.imageBytes / SUMMED_BYTES) * SUM_BYTES;
    this.#content = Buffer.from(JSON.stringify({ key, places: [...places] }));
    const used = PREFIX_BYTES + DIGEST_BYTES + 4 + this.#content.length + this.sumsBytes;
    this.bytes = Math.ceil(used / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
  }

  get fileBytes(): number {
    return this.bytes + this.imageBytes;
  }

  /** The header of an image with these checksums. */
  withSums(sums: Uint8Array): Buffer {
    const header = Buffer.alloc(this.bytes);
    let at = MAGIC.copy(header);
    at = header.writeUInt32LE(FILE_VERSION, at);
    at = header.writeUInt32LE(this.bytes, at);
    const digestAt = at;
    at = header.writeUInt32LE(this.#content.length, digestAt + DIGEST_BYTES);
    at += this.#content.copy(header, at);
    header.set(sums, at);
    createHash('sha256')
      .update(header.subarray(digestAt + DIGEST_BYTES))
      .digest()
      .copy(header, digestAt);
    return header;
  }

  /** The checksums in a header that was read, or undefined where it is not this one, to the bit. */
  sumsOf(header: Buffer): Uint8Array | undefined {
    if (header.length !== this.bytes) return undefined;
    const start = PREFIX_BYTES + DIGEST_BYTES + 4 + this.#content.length;
    const sums = header.subarray(start, start + this.sumsBytes);
    return header.equals(this.withSums(sums)) ? sums : undefined;
  }
}
