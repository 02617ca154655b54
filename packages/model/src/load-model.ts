import { StetError } from '@stet/backend';
import { assembleModel, closingOnFailure } from './assemble-model.js';
import type { DecoderConfig } from './config/decoder-config.js';
import { checkId } from './config/decoder-limits.js';
import { type GenerationConfig, parseGenerationConfig } from './config/generation-config.js';
import { limitContext } from './config/limit-context.js';
import { parseModelConfig } from './config/model-config.js';
import { readJson } from './files/read-file.js';
import type { FileSource } from './files/source.js';
import type { LoadedModel, LoadOptions } from './loaded-model.js';
import { decoderPlan } from './plan/decoder-plan.js';
import { openCheckpoint } from './safetensors/checkpoint.js';
import { type LoadedText, loadText } from './text/load-text.js';
import { checkTensors } from './weights/check-tensors.js';
import { chooseFormats, DEFAULT_FORMAT } from './weights/choose-formats.js';
import { huggingFacePlaces } from './weights/hugging-face-places.js';

const CONFIG = 'config.json';
const GENERATION_CONFIG = 'generation_config.json';
const MAX_CONFIG_BYTES = 4 * 2 ** 20;
const CONFIG_RULE = { code: 'STET_ERR_BAD_CONFIG', maxBytes: MAX_CONFIG_BYTES } as const;

/**
 * Reads a model in Hugging Face layout: config, headers of all weights, tokenizer, chat template, digest. Takes the
 * source over: it is closed when loading fails, and by `close` of the model. Rejects with a `StetError`.
 */
export function loadModel(source: FileSource, options: LoadOptions = {}): Promise<LoadedModel> {
  return closingOnFailure(source, () => load(source, options));
}

async function load(source: FileSource, options: LoadOptions): Promise<LoadedModel> {
  const { format = DEFAULT_FORMAT, signal } = options;
  const names = new Set(await source.list());
  if (!names.has(CONFIG)) throw new StetError('STET_ERR_MODEL_NOT_FOUND', `${source.location} has no ${CONFIG}`);
  const config = parseModelConfig(await readJson(source, CONFIG, CONFIG_RULE, signal));
  const generation = await loadGenerationConfig(source, names, config, signal);
  const places = huggingFacePlaces(config);
  const { tensors, files: weightFiles } = await openCheckpoint(source, names, signal);
  const formats = chooseFormats(format, tensors, places);
  const plan = decoderPlan(limitContext(config, options.contextLength), formats.formatOf);
  // Old checkpoints store the rope's frequencies, and some tied ones their head a second time.
  const isIdle = (name: string): boolean =>
    name.endsWith('.rotary_emb.inv_freq') || (config.head === 'tied' && name === 'lm_head.weight');
  checkTensors(plan, tensors, places, isIdle);
  const bosId = config.bosId ?? generation.bosId;
  const text: LoadedText =
    options.tokenizer === 'none'
      ? { files: [] }
      : await loadText(source, names, { vocabSize: plan.vocabSize, bosId }, signal);
  const configFiles = [CONFIG, ...[GENERATION_CONFIG].filter((name) => names.has(name))];
  return assembleModel(
    {
      source,
      plan,
      rope: config.rope,
      tensors,
      places,
      formats: formats.uses(plan),
      text,
      bosId,
      eosIds: [...generation.eosIds, ...config.eosIds],
      generationDefaults: generation.defaults,
      files: [...configFiles, ...weightFiles, ...text.files],
    },
    options,
  );
}

async function loadGenerationConfig(
  source: FileSource,
  names: ReadonlySet<string>,
  { vocabSize }: DecoderConfig,
  signal: AbortSignal | undefined,
): Promise<GenerationConfig> {
  if (!names.has(GENERATION_CONFIG)) return { defaults: {}, eosIds: [] };
  const generation = parseGenerationConfig(await readJson(source, GENERATION_CONFIG, CONFIG_RULE, signal));
  const { bosId, eosIds } = generation;
  for (const id of eosIds) checkId('eos_token_id', id, vocabSize, GENERATION_CONFIG);
  if (bosId !== undefined) checkId('bos_token_id', bosId, vocabSize, GENERATION_CONFIG);
  return generation;
}
