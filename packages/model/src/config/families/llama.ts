import { noWindows } from '../layer-types.js';
import { ropeTypes } from '../rope-config.js';
import { biasesOf, type FamilyRules, rotatedLayers } from './family.js';

/** The family that the others are told apart from; it has no sliding window. */
export const llama: FamilyRules = {
  family: 'llama',
  modelType: 'llama',
  defaults: { normEpsilon: 1e-6, ropeTheta: 10000, head: 'own' },
  ropeTypes,
  blockNorms: 'before',
  queryKeyNorms: 'none',
  biases: (fields) => biasesOf(fields.attention_bias, fields.mlp_bias),
  layers: (fields) => rotatedLayers(noWindows(fields)),
};
