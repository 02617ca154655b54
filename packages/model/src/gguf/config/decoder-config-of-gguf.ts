import type { BiasConfig, DecoderConfig, LayerConfig } from '../../config/decoder-config.js';
import { checkDecoderConfig, decoderLimits } from '../../config/decoder-limits.js';
import type { GgufArchitecture } from '../architectures/architecture.js';
import { badMetadata } from '../gguf-error.js';
import type { GgufMetadata } from '../metadata-value.js';
import type { GgufTensors } from '../split/open-gguf.js';
import { ModelKeys } from './model-keys.js';
import { ropeOfKeys } from './rope-keys.js';

/** What a config is made from. */
export interface GgufDescription {
  readonly file: string;
  /** As `general.architecture` has it. */
  readonly name: string;
  readonly architecture: GgufArchitecture;
  readonly metadata: GgufMetadata;
  readonly tensors: GgufTensors;
  /** Values of the tensor `rope_freqs.weight`. */
  readonly ropeFactors?: readonly number[];
}

/**
 * The decoder that the metadata describe, with what only the presence of tensors says: biases, and a head of its own.
 * Ids that begin and end a text are not in it; they are those of the tokenizer. Throws `STET_ERR_BAD_CONFIG`.
 */
export function decoderConfigOfGguf(description: GgufDescription): DecoderConfig {
  const { file, name, architecture, metadata, tensors, ropeFactors } = description;
  const keys = new ModelKeys(file, name, metadata);
  const layerCount = keys.requiredCount('block_count', decoderLimits.layers);
  const contextLength = keys.requiredCount('context_length', decoderLimits.contextLength);
  const hiddenSize = keys.requiredCount('embedding_length', decoderLimits.columns);
  const heads = headSizes(keys, layerCount, hiddenSize);
  if (ropeFactors && ropeFactors.length !== heads.headSize / 2) {
    badMetadata(file, `rope_freqs.weight has ${ropeFactors.length} factors for heads of ${heads.headSize}`);
  }
  const config: DecoderConfig = {
    family: architecture.family,
    vocabSize: keys.count('vocab_size', decoderLimits.vocabSize) ?? embeddingRows(file, tensors),
    hiddenSize,
    intermediateSize:
      keys.sameCount('feed_forward_length', layerCount, decoderLimits.columns) ??
      keys.bad('feed_forward_length', 'is missing'),
    ...heads,
    contextLength,
    normEpsilon: normEpsilon(keys),
    rope: ropeOfKeys(keys, contextLength, ropeFactors),
    layers: layers(keys, architecture, layerCount, contextLength),
    biases: biases(architecture, tensors),
    blockNorms: architecture.blockNorms,
    queryKeyNorms: architecture.queryKeyNorms,
    head: tensors.has('output.weight') ? 'own' : 'tied',
    eosIds: [],
  };
  refuseWhatIsNotComputed(keys, config.headSize);
  checkDecoderConfig(config, file);
  return config;
}

function headSizes(
  keys: ModelKeys,
  layerCount: number,
  hiddenSize: number,
): Pick<DecoderConfig, 'headCount' | 'kvHeadCount' | 'headSize'> {
  const headCount =
    keys.sameCount('attention.head_count', layerCount, decoderLimits.heads) ??
    keys.bad('attention.head_count', 'is missing');
  const kvHeadCount = keys.sameCount('attention.head_count_kv', layerCount, decoderLimits.heads) ?? headCount;
  const keyLength = keys.count('attention.key_length', decoderLimits.headSize);
  if (keyLength === undefined && hiddenSize % headCount !== 0) {
    keys.bad('attention.head_count', `is ${headCount}, which does not divide ${hiddenSize}, and key_length is absent`);
  }
  const headSize = keyLength ?? hiddenSize / headCount;
  keys.neutral('attention.value_length', headSize);
  keys.neutral('rope.dimension_count', headSize);
  return { headCount, kvHeadCount, headSize };
}

function embeddingRows(file: string, tensors: GgufTensors): number {
  const rows = tensors.get('token_embd.weight')?.shape[0];
  return rows ?? badMetadata(file, 'there is neither vocab_size nor a tensor token_embd.weight');
}

function normEpsilon(keys: ModelKeys): number {
  const name = 'attention.layer_norm_rms_epsilon';
  return keys.decimal(name, 0, 1) ?? keys.bad(name, 'is missing');
}

function layers(
  keys: ModelKeys,
  architecture: GgufArchitecture,
  layerCount: number,
  contextLength: number,
): LayerConfig[] {
  const name = 'attention.sliding_window';
  // Converters write 0 where there is none. A window as long as the context changes nothing.
  const window = keys.decimal(name, 0, 2 ** 31);
  const windowSize = window === undefined || window === 0 || window >= contextLength ? undefined : window;
  if (windowSize !== undefined) {
    if (!Number.isInteger(windowSize)) keys.bad(name, `is ${windowSize}, expected a whole number`);
    if (architecture.slidingWindow === 'unsupported') {
      keys.bad(name, `is ${windowSize}; windows of ${architecture.family} are not supported`);
    }
  }
  return Array.from({ length: layerCount }, (_, layer) => ({
    positions: architecture.positions(layer),
    ...(windowSize !== undefined && { windowSize }),
  }));
}

function biases(architecture: GgufArchitecture, tensors: GgufTensors): BiasConfig {
  const has = (...names: string[]): boolean => names.some((name) => tensors.has(`blk.0.${name}.bias`));
  return {
    queryKeyValue: architecture.queryKeyValueBias === 'always' || has('attn_q', 'attn_k', 'attn_v', 'attn_qkv'),
    attentionOutput: has('attn_output'),
    feedForward: has('ffn_gate', 'ffn_up', 'ffn_down'),
  };
}

/** Keys that would change what the model computes if they said anything else. */
function refuseWhatIsNotComputed(keys: ModelKeys, headSize: number): void {
  for (const name of ['expert_count', 'expert_used_count', 'expert_shared_count', 'expert_group_count']) {
    keys.neutral(name, 0);
  }
  keys.neutral('nextn_predict_layers', 0);
  keys.neutral('attention.causal', true);
  keys.neutral('use_parallel_residual', false);
  // Zero means that there is none.
  for (const name of ['logit_scale', 'residual_scale', 'embedding_scale']) keys.neutral(name, 0, 1);
  keys.neutral('attention.scale', 0, Math.fround(1 / Math.sqrt(headSize)));
  for (const name of ['attn_logit_softcapping', 'final_logit_softcapping']) keys.neutral(name, 0);
  for (const name of ['attention.clamp_kqv', 'attention.max_alibi_bias']) keys.neutral(name, 0);
  // How tensors were laid out before they were converted, and how embeddings of texts are made.
  for (const name of ['tensor_data_layout', 'pooling_type']) keys.ignore(name);
  keys.refuseOthers();
}
