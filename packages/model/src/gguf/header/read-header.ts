import { throwIfAborted } from '../../files/abort.js';
import { quote } from '../../files/quote.js';
import type { FileSource } from '../../files/source.js';
import type { StoredTensor } from '../../weights/stored-tensor.js';
import { badGguf } from '../gguf-error.js';
import type { GgufMetadata, GgufValue } from '../metadata-value.js';
import { HeaderCursor } from './header-cursor.js';
import { DEFAULT_ALIGNMENT, MAX_KEY_BYTES, MAX_KEYS, MAX_TENSORS } from './limits.js';
import { readString } from './read-string.js';
import { placeTensors, readTensorEntry, type TensorEntry } from './read-tensors.js';
import { readValue } from './read-value.js';

/** What a GGUF file says before its data. */
export interface GgufHeader {
  readonly file: string;
  readonly metadata: GgufMetadata;
  /** In the order of the file; names are unique, bytes inside of the file and without overlap. */
  readonly tensors: readonly StoredTensor[];
}

/** `GGUF` in ASCII, read as a little-endian u32. */
const MAGIC = 0x46554747;
const VERSIONS = [2, 3];

/**
 * Reads and checks the header of one GGUF file (little-endian, version 2 or 3), nothing of its data. Every count,
 * length, type and offset is checked against the size of the file before it is used, so that what the header promises
 * can be read. Rejects with `STET_ERR_BAD_GGUF` that names the file and the key or the tensor.
 *
 * This is our own reader because the library for it, `@huggingface/gguf`, is made for looking at files on a hub: it
 * drops a byte order mark at the start of a string (Llama's vocabulary has a token of three such bytes), replaces bytes
 * that are not UTF-8, cuts a string silently where its 2 MB chunk ends, pads a file that is too short with zeros and
 * keeps the last of two equal keys. Tests hold this reader against it wherever it is right.
 */
export async function readGgufHeader(source: FileSource, file: string, signal?: AbortSignal): Promise<GgufHeader> {
  throwIfAborted(signal);
  const cursor = new HeaderCursor(source, file, await source.size(file), signal);
  const { tensorCount, keyCount } = await readStart(cursor);
  const metadata = await readMetadata(cursor, keyCount);
  const entries: TensorEntry[] = [];
  for (let i = 0; i < tensorCount; i++) entries.push(await readTensorEntry(cursor, i));
  return { file, metadata, tensors: placeTensors(cursor, entries, alignment(file, metadata)) };
}

async function readStart(cursor: HeaderCursor): Promise<{ tensorCount: number; keyCount: number }> {
  const { file } = cursor;
  await cursor.need(8, 'its magic number');
  if (cursor.u32() !== MAGIC) badGguf(file, 'does not begin with GGUF');
  const version = cursor.u32();
  // A version of another byte order has zeros in its low half.
  if (version !== 0 && (version & 0xffff) === 0) badGguf(file, 'is big-endian; only little-endian files are supported');
  if (!VERSIONS.includes(version)) {
    badGguf(file, `is GGUF version ${version}; supported are ${VERSIONS.join(' and ')}`);
  }
  await cursor.need(16, 'its counts');
  const tensorCount = cursor.count(MAX_TENSORS) ?? badGguf(file, `has more than ${MAX_TENSORS} tensors`);
  const keyCount = cursor.count(MAX_KEYS) ?? badGguf(file, `has more than ${MAX_KEYS} keys`);
  return { tensorCount, keyCount };
}

async function readMetadata(cursor: HeaderCursor, keyCount: number): Promise<GgufMetadata> {
  const values = new Map<string, GgufValue>();
  for (let i = 0; i < keyCount; i++) {
    const key = await readString(cursor, `key ${i}`, MAX_KEY_BYTES);
    if (key === '') badGguf(cursor.file, `has an empty key, its ${i}th`);
    if (values.has(key)) badGguf(cursor.file, `has the key ${quote(key)} twice`);
    values.set(key, await readValue(cursor, key));
  }
  return values;
}

function alignment(file: string, metadata: GgufMetadata): number {
  const value = metadata.get('general.alignment') ?? DEFAULT_ALIGNMENT;
  const isPowerOfTwo = typeof value === 'number' && Number.isInteger(Math.log2(value)) && value >= 1;
  return isPowerOfTwo ? value : badGguf(file, 'has a general.alignment that is not a power of two');
}
