import { sameWindows } from '../layer-types.js';
import { type FamilyRules, noBiases, rotatedLayers } from './family.js';

/**
 * A Llama without biases whose checkpoints hold queries, keys and values in one tensor, gate and up in another. The long
 * contexts of its larger siblings (`longrope`, which old configs call `su` or `yarn`) are not supported.
 */
export const phi3: FamilyRules = {
  family: 'phi3',
  modelType: 'phi3',
  defaults: { normEpsilon: 1e-5, ropeTheta: 10000, head: 'own' },
  ropeTypes: ['default'],
  blockNorms: 'before',
  queryKeyNorms: 'none',
  biases: () => noBiases,
  layers: (fields) => rotatedLayers(sameWindows(fields, fields.sliding_window ?? undefined)),
};
