import { badConfig } from '../config-error.js';
import type { ConfigFields } from '../config-fields.js';
import type { LayerConfig } from '../decoder-config.js';
import { switchedWindow, windowsPerLayer } from '../layer-types.js';
import { ropeTypes } from '../rope-config.js';
import { biasesOf, type FamilyRules } from './family.js';

/** Every so many layers one is not rotated, where its config does not list them. */
const DEFAULT_INTERVAL = 4;

/** A Llama some of whose layers are not rotated; a window, where it is switched on, is theirs. */
export const smollm3: FamilyRules = {
  family: 'smollm3',
  modelType: 'smollm3',
  defaults: { normEpsilon: 1e-6, ropeTheta: 2000000, head: 'tied', kvHeadCount: 4 },
  ropeTypes,
  blockNorms: 'before',
  queryKeyNorms: 'none',
  biases: (fields) => biasesOf(fields.attention_bias, fields.mlp_bias),
  layers: (fields) => {
    const rotated = rotatedLayers(fields);
    const windows = windowsPerLayer(fields, switchedWindow(fields, undefined), (layer) => !rotated[layer]);
    return rotated.map((isRotated, layer): LayerConfig => {
      const windowSize = windows[layer];
      return { positions: isRotated ? 'rope' : 'none', ...(windowSize !== undefined && { windowSize }) };
    });
  },
};

/** In spite of its name, `no_rope_layers` has 1 for layers that are rotated. It may be longer than the model. */
function rotatedLayers(fields: ConfigFields): boolean[] {
  const { no_rope_layers: listed, num_hidden_layers: layerCount } = fields;
  const interval = fields.no_rope_layer_interval ?? DEFAULT_INTERVAL;
  if (listed && listed.length < layerCount)
    badConfig(`no_rope_layers has ${listed.length} entries for ${layerCount} layers`);
  return Array.from({ length: layerCount }, (_, layer) =>
    listed ? Boolean(listed[layer]) : (layer + 1) % interval !== 0,
  );
}
