import { StetError } from '@stet/backend';
import { quote } from '../files/quote.js';
import { readJson } from '../files/read-file.js';
import type { FileSource } from '../files/source.js';
import type { StoredTensor } from '../weights/stored-tensor.js';
import { readHeader } from './header.js';

/** The tensors of a model, wherever they lie. */
export interface Checkpoint {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  /** The safetensors files, and the index where there is one. */
  readonly files: readonly string[];
}

export const SINGLE_FILE = 'model.safetensors';
export const INDEX_FILE = 'model.safetensors.index.json';

const MAX_INDEX_BYTES = 64 * 2 ** 20;
/** Most shards: each is a file that stays open. */
const MAX_SHARDS = 1000;

/**
 * Finds the safetensors of a model, single or sharded, and reads all headers. As transformers does, it takes
 * `model.safetensors` where both are there. Rejects with `STET_ERR_MODEL_NOT_FOUND` or `STET_ERR_BAD_SAFETENSORS`.
 */
export async function openCheckpoint(
  source: FileSource,
  names: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<Checkpoint> {
  if (names.has(SINGLE_FILE)) {
    const tensors = new Map<string, StoredTensor>();
    for (const tensor of await readHeader(source, SINGLE_FILE, signal)) tensors.set(tensor.name, tensor);
    return { tensors, files: [SINGLE_FILE] };
  }
  if (names.has(INDEX_FILE)) return openSharded(source, names, signal);
  const others = [...names].filter((name) => /\.(bin|pth|pt|gguf|onnx|safetensors)$/.test(name)).slice(0, 5);
  const found = others.length > 0 ? `; it has ${others.join(', ')}` : '';
  throw new StetError(
    'STET_ERR_MODEL_NOT_FOUND',
    `${source.location} has neither ${SINGLE_FILE} nor ${INDEX_FILE}${found}`,
  );
}

async function openSharded(source: FileSource, names: ReadonlySet<string>, signal?: AbortSignal): Promise<Checkpoint> {
  const rule = { code: 'STET_ERR_BAD_SAFETENSORS', maxBytes: MAX_INDEX_BYTES } as const;
  const weightMap = parseIndex(await readJson(source, INDEX_FILE, rule, signal));
  const shards = [...new Set(weightMap.values())].sort();
  if (shards.length > MAX_SHARDS) bad(`names ${shards.length} files, at most ${MAX_SHARDS} are allowed`);
  for (const shard of shards) {
    if (!names.has(shard)) bad(`names the file ${quote(shard)}, which is missing`);
  }
  const tensors = new Map<string, StoredTensor>();
  for (const shard of shards) {
    for (const tensor of await readHeader(source, shard, signal)) {
      const other = tensors.get(tensor.name);
      if (other) bad(`has the tensor ${quote(tensor.name)} in ${other.file} and again in ${shard}`);
      tensors.set(tensor.name, tensor);
    }
  }
  for (const [name, shard] of weightMap) {
    const tensor = tensors.get(name);
    if (!tensor) bad(`says that ${quote(name)} is in ${shard}, where it is not`);
    if (tensor.file !== shard) bad(`says that ${quote(name)} is in ${shard}, but it is in ${tensor.file}`);
  }
  for (const name of tensors.keys()) {
    if (!weightMap.has(name)) bad(`does not list ${quote(name)} of ${tensors.get(name)!.file}`);
  }
  return { tensors, files: [INDEX_FILE, ...shards] };
}

function parseIndex(value: unknown): Map<string, string> {
  const weightMap = isRecord(value) ? value.weight_map : undefined;
  if (!isRecord(weightMap)) bad('has no weight_map');
  const entries = Object.entries(weightMap);
  if (entries.length === 0) bad('has an empty weight_map');
  const result = new Map<string, string>();
  for (const [name, file] of entries) {
    if (typeof file !== 'string' || !file.endsWith('.safetensors')) bad(`names no safetensors file for ${quote(name)}`);
    result.set(name, file);
  }
  return result;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_SAFETENSORS', `${INDEX_FILE} ${message}`);
}
