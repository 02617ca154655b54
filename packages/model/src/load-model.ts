import { type Plan, StetError, type WeightFormat, type WeightSource } from '@stet/backend';
import type { GenerationConfig, GenerationDefaults } from './config/generation-config.js';
import { parseGenerationConfig } from './config/generation-config.js';
import { checkId, type LlamaConfig, parseModelConfig } from './config/model-config.js';
import { type Hasher, javascriptHasher } from './digest/hasher.js';
import { modelDigest } from './digest/model-digest.js';
import { quote } from './files/quote.js';
import { readJson } from './files/read-file.js';
import type { FileSource } from './files/source.js';
import { llamaPlan } from './plan/llama-plan.js';
import { type Checkpoint, openCheckpoint } from './safetensors/checkpoint.js';
import type { ChatTemplate } from './text/chat-template.js';
import { type LoadedText, loadText } from './text/load-text.js';
import type { Tokenizer } from './text/tokenizer.js';
import { ownPlaces, storedRows } from './weights/stored-rows.js';
import { tensorWeights } from './weights/tensor-weights.js';

export interface LoadOptions {
  /** Format of all matrices; `bf16` by default. It is part of the fingerprint. */
  readonly format?: WeightFormat;
  /** `none`: the model is used by token ids alone, without text. Otherwise tokenizer.json must be there. */
  readonly tokenizer?: 'required' | 'none';
  /** By default the last part of the source's location. */
  readonly name?: string;
  /** Makes loading reject with `STET_ERR_ABORTED`. */
  readonly signal?: AbortSignal;
  /** SHA-256 for the digest; by default the one in JavaScript. */
  readonly createHasher?: () => Hasher;
}

/** A model that is ready for a backend. Weights are read from the source when a backend asks for them. */
export interface LoadedModel {
  readonly name: string;
  /** As the plan names it, e.g. `llama`. */
  readonly architecture: string;
  readonly plan: Plan;
  readonly weights: WeightSource;
  /** Absent where `tokenizer: 'none'` was asked for. */
  readonly tokenizer?: Tokenizer;
  /** Absent where the model has none. */
  readonly chatTemplate?: ChatTemplate;
  readonly bosId?: number;
  /** Any of them ends a text; those of generation_config.json and config.json. */
  readonly eosIds: readonly number[];
  readonly contextLength: number;
  readonly generationDefaults: GenerationDefaults;
  /** 64 hex digits over config, tokenizer, chat template and weights. */
  readonly digest: string;
  /** Closes the files; weights cannot be read any more, text can. May be called twice. */
  close(): Promise<void>;
}

const CONFIG = 'config.json';
const GENERATION_CONFIG = 'generation_config.json';
const MAX_CONFIG_BYTES = 4 * 2 ** 20;
const CONFIG_RULE = { code: 'STET_ERR_BAD_CONFIG', maxBytes: MAX_CONFIG_BYTES } as const;

/**
 * Reads a model in Hugging Face layout: config, headers of all weights, tokenizer, chat template, digest. Takes the
 * source over: it is closed when loading fails, and by `close` of the model. Rejects with a `StetError`.
 */
export async function loadModel(source: FileSource, options: LoadOptions = {}): Promise<LoadedModel> {
  try {
    return await load(source, options);
  } catch (error) {
    await source.close();
    throw error;
  }
}

async function load(source: FileSource, options: LoadOptions): Promise<LoadedModel> {
  const { format = 'bf16', signal, createHasher = javascriptHasher } = options;
  const names = new Set(await source.list());
  if (!names.has(CONFIG)) throw new StetError('STET_ERR_MODEL_NOT_FOUND', `${source.location} has no ${CONFIG}`);
  const config = parseModelConfig(await readJson(source, CONFIG, CONFIG_RULE, signal));
  const generation = await loadGenerationConfig(source, names, config, signal);
  const plan = llamaPlan(config, format);
  const checkpoint = await openCheckpoint(source, names, signal);
  checkTensors(plan, config, checkpoint);
  const bosId = config.bosId ?? generation.bosId;
  const text: LoadedText =
    options.tokenizer === 'none'
      ? { files: [] }
      : await loadText(source, names, { vocabSize: plan.vocabSize, bosId }, signal);
  const files = [CONFIG, ...[GENERATION_CONFIG].filter((name) => names.has(name)), ...checkpoint.files, ...text.files];
  return {
    name: options.name ?? lastPart(source.location),
    architecture: plan.architecture,
    plan,
    weights: tensorWeights(source, checkpoint.tensors),
    ...(text.tokenizer && { tokenizer: text.tokenizer }),
    ...(text.chatTemplate && { chatTemplate: text.chatTemplate }),
    ...(bosId !== undefined && { bosId }),
    eosIds: [...new Set([...generation.eosIds, ...config.eosIds])].sort((a, b) => a - b),
    contextLength: plan.contextLength,
    generationDefaults: generation.defaults,
    digest: await modelDigest(source, files, createHasher, signal),
    close: () => source.close(),
  };
}

async function loadGenerationConfig(
  source: FileSource,
  names: ReadonlySet<string>,
  config: LlamaConfig,
  signal: AbortSignal | undefined,
): Promise<GenerationConfig> {
  if (!names.has(GENERATION_CONFIG)) return { defaults: {}, eosIds: [] };
  const generation = parseGenerationConfig(await readJson(source, GENERATION_CONFIG, CONFIG_RULE, signal));
  for (const id of generation.eosIds) checkId(`eos_token_id of ${GENERATION_CONFIG}`, id, config.vocabSize);
  if (generation.bosId !== undefined)
    checkId(`bos_token_id of ${GENERATION_CONFIG}`, generation.bosId, config.vocabSize);
  return generation;
}

/** Every weight of the plan is there, and nothing is left over that would have changed what the model computes. */
function checkTensors(plan: Plan, config: LlamaConfig, checkpoint: Checkpoint): void {
  for (const spec of plan.weights) storedRows(spec, checkpoint.tensors, ownPlaces);
  const used = new Set(plan.weights.map((spec) => spec.name));
  const isIdle = (name: string): boolean =>
    // Old checkpoints store the rope's frequencies, and some tied ones their head a second time.
    name.endsWith('.rotary_emb.inv_freq') || (config.head === 'tied' && name === 'lm_head.weight');
  const unknown = [...checkpoint.tensors.keys()].filter((name) => !used.has(name) && !isIdle(name));
  if (unknown.length > 0) {
    const more = unknown.length > 3 ? ` and ${unknown.length - 3} more` : '';
    throw new StetError(
      'STET_ERR_BAD_TENSOR',
      `${checkpoint.tensors.get(unknown[0]!)!.file} has tensors that ${config.architecture} with this config.json has no use for: ${unknown
        .slice(0, 3)
        .map(quote)
        .join(', ')}${more}`,
    );
  }
}

function lastPart(location: string): string {
  const parts = location.split(/[\\/]/).filter((part) => part !== '');
  return parts.at(-1) ?? location;
}
