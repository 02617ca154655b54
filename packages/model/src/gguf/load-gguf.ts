import { type Plan, StetError } from '@stet/backend';
import { assembleModel, closingOnFailure, type ModelParts } from '../assemble-model.js';
import { limitContext } from '../config/limit-context.js';
import type { FileSource } from '../files/source.js';
import type { LoadedModel, LoadOptions } from '../loaded-model.js';
import { decoderPlan } from '../plan/decoder-plan.js';
import { checkTensors } from '../weights/check-tensors.js';
import { chooseFormats, DEFAULT_FORMAT } from '../weights/choose-formats.js';
import type { WeightPlaces } from '../weights/stored-tensor.js';
import { findArchitecture } from './architectures/find-architecture.js';
import { decoderConfigOfGguf } from './config/decoder-config-of-gguf.js';
import { badMetadata } from './gguf-error.js';
import type { GgufMetadata } from './metadata-value.js';
import { LONG_ROPE_TENSORS, ROPE_FACTORS_TENSOR, readRopeFactors } from './rope-factors.js';
import { samplingDefaults } from './sampling-defaults.js';
import { type GgufTensors, openGguf } from './split/open-gguf.js';
import { parseSplitName } from './split/split-name.js';
import { ggufPlaces } from './tensor-places.js';
import { ggufText } from './tokenizer/gguf-text.js';
import { idField } from './tokenizer/metadata-fields.js';
import { supportedTypes } from './types/ggml-types.js';

/**
 * Reads a model from a GGUF file, or from all files of a split one, of which `fileName` is any: header, tokenizer, chat
 * template, digest. Takes the source over: it is closed when loading fails, and by `close` of the model. Rejects with a
 * `StetError`. By default the model is named after its file.
 */
export function loadGguf(source: FileSource, fileName: string, options: LoadOptions = {}): Promise<LoadedModel> {
  return closingOnFailure(source, () => load(source, fileName, options));
}

async function load(source: FileSource, fileName: string, options: LoadOptions): Promise<LoadedModel> {
  const { format = DEFAULT_FORMAT, signal } = options;
  const { files, metadata, tensors } = await openGguf(source, fileName, signal);
  const [file] = files;
  const { name, architecture } = findArchitecture(file, metadata);
  refuseLongRope(file, tensors);
  const ropeFactors = architecture.ropeFactors === 'tensor' ? await readRopeFactors(source, tensors) : undefined;
  const config = decoderConfigOfGguf({
    file,
    name,
    architecture,
    metadata,
    tensors,
    ...(ropeFactors && { ropeFactors }),
  });
  const places = ggufPlaces(architecture, config, tensors);
  const formats = chooseFormats(format, tensors, places);
  const plan = decoderPlan(limitContext(config, options.contextLength), formats.formatOf);
  checkTypes(plan, tensors, places);
  checkTensors(plan, tensors, places, (tensor) => isIdle(tensor, ropeFactors !== undefined));
  return assembleModel(
    {
      source,
      plan,
      rope: config.rope,
      tensors,
      places,
      formats: formats.uses(plan),
      ...textParts(metadata, plan, options),
      generationDefaults: samplingDefaults(file, metadata),
      files,
    },
    { name: modelName(file), ...options },
  );
}

function refuseLongRope(file: string, tensors: GgufTensors): void {
  const found = LONG_ROPE_TENSORS.find((name) => tensors.has(name));
  if (found !== undefined) badMetadata(file, `the rope type longrope (tensor ${found}) is not supported`);
}

/** Says which types there are where a weight has another. */
function checkTypes(plan: Plan, tensors: GgufTensors, places: WeightPlaces): void {
  for (const spec of plan.weights) {
    const tensor = tensors.get(places(spec.name).tensor);
    if (!tensor || tensor.type.decode) continue;
    throw new StetError(
      'STET_ERR_BAD_TENSOR',
      `${tensor.file}: ${tensor.name} has the type ${tensor.type.name}; supported are ${supportedTypes().join(', ')}`,
    );
  }
}

/** Old files store the rope's frequencies in each layer. */
function isIdle(tensor: string, hasRopeFactors: boolean): boolean {
  return (hasRopeFactors && tensor === ROPE_FACTORS_TENSOR) || /^blk\.\d+\.attn_rot_embd\.weight$/.test(tensor);
}

function textParts(
  metadata: GgufMetadata,
  plan: Plan,
  options: LoadOptions,
): Pick<ModelParts, 'text' | 'bosId' | 'eosIds'> {
  if (options.tokenizer !== 'none') {
    const { bosId, eosIds, ...text } = ggufText(metadata, { vocabSize: plan.vocabSize });
    return { text, bosId, eosIds };
  }
  const id = (name: string): number | undefined => idField(metadata, `tokenizer.ggml.${name}_token_id`, plan.vocabSize);
  const eosIds = ['eos', 'eot', 'eom'].map(id).filter((value) => value !== undefined);
  return { text: {}, bosId: id('bos'), eosIds };
}

function modelName(file: string): string {
  return parseSplitName(file)?.prefix ?? file.replace(/\.gguf$/i, '');
}
