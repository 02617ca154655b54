import { noWindows } from '../layer-types.js';
import { ropeTypes } from '../rope-config.js';
import { biasesOf, type FamilyRules, rotatedLayers } from './family.js';

/** Norms of what attention and feed-forward give, and of queries and keys over all heads together. */
export const olmo2: FamilyRules = {
  family: 'olmo2',
  modelType: 'olmo2',
  defaults: { normEpsilon: 1e-5, ropeTheta: 10000, head: 'own' },
  ropeTypes,
  blockNorms: 'after',
  queryKeyNorms: 'whole',
  biases: (fields) => biasesOf(fields.attention_bias, false),
  layers: (fields) => rotatedLayers(noWindows(fields)),
};
