import { quote } from '../../files/quote.js';
import type { StoredTensor } from '../../weights/stored-tensor.js';
import { badGguf } from '../gguf-error.js';
import { type GgmlType, ggmlType, supportedTypes } from '../types/ggml-types.js';
import type { HeaderCursor } from './header-cursor.js';
import { MAX_RANK, MAX_TENSOR_NAME_BYTES } from './limits.js';
import { readString } from './read-string.js';

/** A tensor as the header lists it. */
export interface TensorEntry {
  readonly name: string;
  /** Outermost first, the other way round than in the file. */
  readonly shape: readonly number[];
  readonly type: GgmlType;
  /** From the beginning of the data. */
  readonly offset: number;
}

/** Reads one entry of the list. Rejects with `STET_ERR_BAD_GGUF`. */
export async function readTensorEntry(cursor: HeaderCursor, index: number): Promise<TensorEntry> {
  const { file, fileSize } = cursor;
  const name = await readString(cursor, `the name of tensor ${index}`, MAX_TENSOR_NAME_BYTES);
  const what = `tensor ${quote(name)}`;
  await cursor.need(4, what);
  const rank = cursor.u32();
  if (rank > MAX_RANK) badGguf(file, `${what} has ${rank} dimensions, at most ${MAX_RANK} are allowed`);
  await cursor.need(rank * 8 + 12, what);
  const shape: number[] = [];
  for (let i = 0; i < rank; i++) {
    const size = cursor.count(Number.MAX_SAFE_INTEGER) ?? badGguf(file, `${what} has a dimension above 2^53`);
    shape.unshift(size);
  }
  const typeNumber = cursor.u32();
  const type = ggmlType(typeNumber);
  if (type === undefined) badGguf(file, `${what} has the unknown type ${typeNumber}`);
  if ('removed' in type) {
    badGguf(
      file,
      `${what} has the type ${type.name}, which the format no longer has; supported are ${supportedTypes().join(', ')}`,
    );
  }
  const offset = cursor.count(fileSize) ?? badGguf(file, `${what} begins beyond the end of the file`);
  return { name, shape, type, offset };
}

/**
 * Finds the bytes of all tensors. The data begin at the next multiple of `alignment` after the header. Throws
 * `STET_ERR_BAD_GGUF` for tensors of one name, tensors outside of the file, and tensors that overlap.
 */
export function placeTensors(cursor: HeaderCursor, entries: readonly TensorEntry[], alignment: number): StoredTensor[] {
  const { file, fileSize, position } = cursor;
  const dataStart = Math.ceil(position / alignment) * alignment;
  const names = new Set<string>();
  const tensors = entries.map(({ name, shape, type, offset }): StoredTensor => {
    const what = `tensor ${quote(name)}`;
    if (names.has(name)) badGguf(file, `has the ${what} twice`);
    names.add(name);
    if (offset % alignment !== 0) badGguf(file, `${what} begins at ${offset}, which is no multiple of ${alignment}`);
    const start = dataStart + offset;
    const end = start + tensorBytes(file, what, shape, type);
    if (end > fileSize) badGguf(file, `${what} ends at ${end}, but the file has ${fileSize} bytes`);
    return { name, file, type, shape, start, end };
  });
  let last: StoredTensor | undefined;
  for (const tensor of [...tensors].sort((a, b) => a.start - b.start || a.end - b.end)) {
    if (last && tensor.start < last.end) {
      badGguf(file, `tensor ${quote(tensor.name)} overlaps tensor ${quote(last.name)}`);
    }
    last = tensor;
  }
  return tensors;
}

function tensorBytes(file: string, what: string, shape: readonly number[], type: GgmlType): number {
  const columns = shape.at(-1) ?? 1;
  if (columns % type.blockValues !== 0) {
    badGguf(file, `${what} has rows of ${columns}, ${type.name} needs a multiple of ${type.blockValues}`);
  }
  const elements = shape.reduce((product, size) => product * size, 1);
  const bytes = (elements / type.blockValues) * type.blockBytes;
  // Sizes beyond this are not exact any more; no file has them.
  if (!Number.isSafeInteger(elements) || !Number.isSafeInteger(bytes)) badGguf(file, `${what} has too many elements`);
  return bytes;
}
