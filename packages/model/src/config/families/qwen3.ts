import { ropeTypes } from '../rope-config.js';
import { biasesOf, type FamilyRules, rotatedLayers } from './family.js';
import { upperWindows } from './qwen2.js';

/** A Qwen 2 without biases, with norms of each query and key head, and heads of a size of their own. */
export const qwen3: FamilyRules = {
  family: 'qwen3',
  modelType: 'qwen3',
  defaults: { normEpsilon: 1e-6, ropeTheta: 10000, head: 'own', kvHeadCount: 32, headSize: 128 },
  ropeTypes,
  blockNorms: 'before',
  queryKeyNorms: 'heads',
  biases: (fields) => biasesOf(fields.attention_bias, false),
  layers: (fields) => rotatedLayers(upperWindows(fields)),
};
