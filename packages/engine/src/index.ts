export { HashChain, hashPrompt } from '@stet/backend/hash-chain';
export {
  type AutoOptions,
  auto,
  type CostPoint,
  type Drafter,
  type DvrOptions,
  direct,
  dvr,
  type PromptLookupOptions,
  promptLookup,
  type VerifyPolicy,
} from '@stet/scheduler';
export * from './api.js';
export { type CalibrationOptions, calibrate } from './calibrate.js';
export { type CreateEngineOptions, createEngine } from './create-engine.js';
export { deriveSeed } from './derive-seed.js';
export type { StetEngine } from './engine.js';
export { portableFingerprint } from './engine-info.js';
export { type KvOptions, type KvSize, kvSize } from './kv-size.js';
export { defaultLimits, type EngineLimits } from './limits.js';
export type { LoadProgress, ModelOption, OpenModelOptions } from './open-model.js';
export { type CollectedAnswer, collectAnswer } from './openai/answer.js';
export type { ChatCompletions } from './openai/chat-completions.js';
export type { ChatMessageParam, ChatParams, CommonParams, TextParams } from './openai/params.js';
export type * from './openai/shapes.js';
export type { TextCompletions } from './openai/text-completions.js';
export type { PolicyOption } from './policy.js';
export { weightsKey } from './weights-key.js';
