import { sameWindows } from '../layer-types.js';
import { ropeTypes } from '../rope-config.js';
import { type FamilyRules, noBiases, rotatedLayers } from './family.js';

/** Where its config does not name a window; null means that there is none. */
const DEFAULT_WINDOW = 4096;

/** A Llama with one sliding window for all layers and no biases, whatever its config says. */
export const mistral: FamilyRules = {
  family: 'mistral',
  modelType: 'mistral',
  defaults: { normEpsilon: 1e-6, ropeTheta: 10000, head: 'own', kvHeadCount: 8 },
  ropeTypes,
  blockNorms: 'before',
  queryKeyNorms: 'none',
  biases: () => noBiases,
  layers: (fields) => {
    const window = fields.sliding_window === undefined ? DEFAULT_WINDOW : (fields.sliding_window ?? undefined);
    return rotatedLayers(sameWindows(fields, window));
  },
};
