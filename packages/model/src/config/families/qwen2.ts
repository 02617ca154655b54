import type { ConfigFields } from '../config-fields.js';
import { switchedWindow, type Windows, windowsPerLayer } from '../layer-types.js';
import { ropeTypes } from '../rope-config.js';
import { type FamilyRules, rotatedLayers } from './family.js';

/** Where a window is switched on that its config does not give. */
const DEFAULT_WINDOW = 4096;
/** Layers that see the whole context where a window is on and its config does not say how many. */
const DEFAULT_FULL_LAYERS = 28;

/** A Llama with biases on queries, keys and values alone, and windows in its upper layers where they are switched on. */
export const qwen2: FamilyRules = {
  family: 'qwen2',
  modelType: 'qwen2',
  defaults: { normEpsilon: 1e-6, ropeTheta: 10000, head: 'own', kvHeadCount: 32 },
  ropeTypes,
  blockNorms: 'before',
  queryKeyNorms: 'none',
  biases: () => ({ queryKeyValue: true, attentionOutput: false, feedForward: false }),
  layers: (fields) => rotatedLayers(upperWindows(fields)),
};

/** Windows in the layers from `max_window_layers` on, in spite of that name. */
export function upperWindows(fields: ConfigFields): Windows {
  const fullLayers = fields.max_window_layers ?? DEFAULT_FULL_LAYERS;
  return windowsPerLayer(fields, switchedWindow(fields, DEFAULT_WINDOW), (layer) => layer >= fullLayers);
}
