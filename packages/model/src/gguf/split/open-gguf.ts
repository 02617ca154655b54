import { StetError } from '@stet/backend';
import { quote } from '../../files/quote.js';
import type { FileSource } from '../../files/source.js';
import type { StoredTensor } from '../../weights/stored-tensor.js';
import { badGguf } from '../gguf-error.js';
import { type GgufHeader, readGgufHeader } from '../header/read-header.js';
import type { GgufMetadata } from '../metadata-value.js';
import { MAX_SPLITS, parseSplitName, type SplitName, splitNames } from './split-name.js';

export type GgufTensors = ReadonlyMap<string, StoredTensor>;

/** The headers of a model, one file or several. */
export interface OpenedGguf {
  /** All files, the first of them that with the metadata. */
  readonly files: readonly [string, ...string[]];
  readonly metadata: GgufMetadata;
  /** The tensors of all files. */
  readonly tensors: GgufTensors;
}

/**
 * Reads the headers of a model. A name like `model-00002-of-00003.gguf` stands for all files of the model, which must
 * all be there. Rejects with `STET_ERR_MODEL_NOT_FOUND` that lists missing files, or `STET_ERR_BAD_GGUF`.
 */
export async function openGguf(source: FileSource, file: string, signal?: AbortSignal): Promise<OpenedGguf> {
  const split = parseSplitName(file);
  if (split === undefined || split.count === 1) return openSingle(await readGgufHeader(source, file, signal));
  const names = await checkSplitFiles(source, file, split);
  const headers: GgufHeader[] = [];
  for (const [index, name] of names.entries()) {
    const header = await readGgufHeader(source, name, signal);
    checkSplitKeys(header, index, names.length);
    headers.push(header);
  }
  const tensors = new Map<string, StoredTensor>();
  for (const tensor of headers.flatMap((header) => header.tensors)) {
    const other = tensors.get(tensor.name);
    if (other) badGguf(tensor.file, `has the tensor ${quote(tensor.name)}, which is in ${other.file} too`);
    tensors.set(tensor.name, tensor);
  }
  const [first] = headers;
  checkTensorCount(first!, tensors.size);
  return { files: names as [string, ...string[]], metadata: first!.metadata, tensors };
}

function openSingle(header: GgufHeader): OpenedGguf {
  const { file, metadata } = header;
  const count = splitKey(header, 'split.count') ?? 1;
  if (count > 1) {
    badGguf(
      file,
      `is one of ${count} files of a model, but it is not named like model-00001-of-${String(count).padStart(5, '0')}.gguf`,
    );
  }
  return { files: [file], metadata, tensors: new Map(header.tensors.map((tensor) => [tensor.name, tensor])) };
}

async function checkSplitFiles(source: FileSource, file: string, split: SplitName): Promise<string[]> {
  if (split.count > MAX_SPLITS) badGguf(file, `is one of ${split.count} files, at most ${MAX_SPLITS} are allowed`);
  if (split.number < 1 || split.number > split.count)
    badGguf(file, 'has a number in its name that is not one of its files');
  const names = splitNames(split);
  const there = new Set(await source.list());
  const missing = names.filter((name) => !there.has(name));
  if (missing.length > 0) {
    const more = missing.length > 5 ? ` and ${missing.length - 5} more` : '';
    throw new StetError(
      'STET_ERR_MODEL_NOT_FOUND',
      `${file} is one of ${split.count} files; missing in ${source.location}: ${missing.slice(0, 5).join(', ')}${more}`,
    );
  }
  return names;
}

function checkSplitKeys(header: GgufHeader, index: number, count: number): void {
  const [saidCount, saidIndex] = [splitKey(header, 'split.count'), splitKey(header, 'split.no')];
  if (saidCount !== count || saidIndex !== index) {
    const said = saidCount === undefined || saidIndex === undefined ? 'nothing of it' : `${saidIndex} of ${saidCount}`;
    badGguf(header.file, `should be file ${index} of ${count}, counted from 0, but its metadata say ${said}`);
  }
}

function checkTensorCount(first: GgufHeader, count: number): void {
  const said = splitKey(first, 'split.tensors.count');
  if (said !== undefined && said !== count)
    badGguf(first.file, `says that there are ${said} tensors in all files, there are ${count}`);
}

function splitKey({ file, metadata }: GgufHeader, key: string): number | undefined {
  const value = metadata.get(key);
  if (value === undefined) return undefined;
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < 0) badGguf(file, `has a bad ${key}`);
  return number;
}
