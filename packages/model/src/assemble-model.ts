import type { Plan, WeightSpec } from '@stet/backend';
import type { GenerationDefaults } from './config/generation-config.js';
import type { RopeConfig } from './config/rope-config.js';
import { javascriptHasher } from './digest/hasher.js';
import { modelDigest } from './digest/model-digest.js';
import type { FileSource } from './files/source.js';
import type { LoadedModel, LoadOptions, TensorTypeUse } from './loaded-model.js';
import type { LoadedText } from './text/load-text.js';
import type { FormatUse } from './weights/choose-formats.js';
import type { StoredTensor, WeightPlaces } from './weights/stored-tensor.js';
import { exactValues, tensorWeights } from './weights/tensor-weights.js';

/** What the reader of a format finds out; the rest of a loaded model follows from it. */
export interface ModelParts {
  readonly source: FileSource;
  readonly plan: Plan;
  readonly rope: RopeConfig;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly places: WeightPlaces;
  readonly formats: readonly FormatUse[];
  readonly text: Pick<LoadedText, 'tokenizer' | 'chatTemplate'>;
  readonly bosId: number | undefined;
  readonly eosIds: readonly number[];
  readonly generationDefaults: GenerationDefaults;
  /** All files that the model is made of. */
  readonly files: readonly string[];
}

/** Runs a loader that takes the source over: closes it where loading fails. */
export async function closingOnFailure<T>(source: FileSource, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** Makes a model of its parts; reads all its files once, for the digest. */
export async function assembleModel(parts: ModelParts, options: LoadOptions): Promise<LoadedModel> {
  const { source, plan, tensors, places, text, bosId } = parts;
  const { createHasher = javascriptHasher, signal, onProgress } = options;
  const digest = await modelDigest(source, parts.files, { createHasher, signal, onProgress });
  return {
    name: options.name ?? lastPart(source.location),
    architecture: plan.architecture,
    plan,
    rope: parts.rope,
    weights: tensorWeights(source, tensors, places),
    exactValues: (spec) => exactValues(source, tensors, places, spec),
    parameterCount: plan.weights.reduce((count, spec) => count + valueCount(spec), 0),
    storage: { files: digest.files, bytes: digest.bytes, tensorTypes: tensorTypes(tensors.values()) },
    formats: parts.formats,
    ...(text.tokenizer && { tokenizer: text.tokenizer }),
    ...(text.chatTemplate && { chatTemplate: text.chatTemplate }),
    ...(bosId !== undefined && { bosId }),
    eosIds: [...new Set(parts.eosIds)].sort((a, b) => a - b),
    contextLength: plan.contextLength,
    generationDefaults: parts.generationDefaults,
    digest: digest.hex,
    close: () => source.close(),
  };
}

function valueCount(spec: WeightSpec): number {
  return spec.kind === 'matrix' ? spec.rows * spec.columns : spec.size;
}

function tensorTypes(tensors: Iterable<StoredTensor>): TensorTypeUse[] {
  const uses = new Map<string, TensorTypeUse>();
  for (const { type, start, end } of tensors) {
    const { tensorCount, bytes } = uses.get(type.name) ?? { tensorCount: 0, bytes: 0 };
    uses.set(type.name, { type: type.name, tensorCount: tensorCount + 1, bytes: bytes + end - start });
  }
  return [...uses.values()].sort((a, b) => b.bytes - a.bytes || (a.type < b.type ? -1 : 1));
}

function lastPart(location: string): string {
  const parts = location.split(/[\\/]/).filter((part) => part !== '');
  return parts.at(-1) ?? location;
}
