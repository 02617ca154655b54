export {
  type BiasConfig,
  type DecoderConfig,
  type Family,
  families,
  type LayerConfig,
} from './config/decoder-config.js';
export { checkDecoderConfig, decoderLimits } from './config/decoder-limits.js';
export { type SupportedArchitecture, supportedArchitectures } from './config/families/index.js';
export type { GenerationDefaults } from './config/generation-config.js';
export { parseModelConfig } from './config/model-config.js';
export type { RopeConfig } from './config/rope-config.js';
export { type FingerprintParts, fingerprint } from './digest/fingerprint.js';
export { type Hasher, javascriptHasher } from './digest/hasher.js';
export { memorySource } from './files/memory-source.js';
export type { FileSource } from './files/source.js';
export { type UrlSourceOptions, urlSource } from './files/url-source.js';
export { ggufArchitectures } from './gguf/architectures/find-architecture.js';
export { loadGguf } from './gguf/load-gguf.js';
export { ggmlType, supportedTypes } from './gguf/types/ggml-types.js';
export { loadModel } from './load-model.js';
export type { LoadedModel, LoadOptions, Storage, TensorTypeUse } from './loaded-model.js';
export { decoderPlan } from './plan/decoder-plan.js';
export { kvBytesPerPosition, type MemoryNeeded, memoryNeeded } from './plan/memory-needed.js';
export { ropeSpec } from './plan/rope.js';
export { type Checkpoint, openCheckpoint } from './safetensors/checkpoint.js';
export { readHeader } from './safetensors/header.js';
export {
  type ChatTemplate,
  type ChatTemplateInput,
  type ChatTemplateMessage,
  createChatTemplate,
} from './text/chat-template.js';
export { renderChat } from './text/render-chat.js';
export { createStreamDecoder, type DecodeState, type StreamDecoder } from './text/stream-decoder.js';
export type { TokenPieces, TokenPlace } from './text/token-pieces.js';
export { createTokenizer, type Tokenizer, type TokenizerOptions } from './text/tokenizer.js';
export { DEFAULT_FORMAT, type FormatOption, type FormatUse } from './weights/choose-formats.js';
export { floatTypes } from './weights/float-types.js';
export type { StoredTensor, TensorRows, TensorType, WeightPlaces } from './weights/stored-tensor.js';
export { tensorWeights } from './weights/tensor-weights.js';
