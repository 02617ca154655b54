import { quote } from '../files/quote.js';
import { badConfig } from './config-error.js';
import type { ConfigFields } from './config-fields.js';

const FULL = 'full_attention';
const SLIDING = 'sliding_attention';

/** Window of each layer, undefined where it sees the whole context. */
export type Windows = readonly (number | undefined)[];

/** One window for all layers, or none, whatever `layer_types` there is must say the same. */
export function sameWindows(fields: ConfigFields, windowSize: number | undefined): Windows {
  const windows = Array.from({ length: fields.num_hidden_layers }, () => windowSize);
  const given = windowsByType(fields, windowSize);
  if (given && !given.every((window) => window === windowSize)) {
    badConfig(`layer_types do not agree with sliding_window ${windowSize ?? null}, which holds for all layers`);
  }
  return windows;
}

/** For families that have no windows: one in config.json must change nothing. */
export function noWindows(fields: ConfigFields): Windows {
  const { sliding_window: given, max_position_embeddings: contextLength } = fields;
  if (given != null && given < contextLength) {
    badConfig(`sliding_window ${given} is not supported, an architecture without windows has it`);
  }
  return sameWindows(fields, undefined);
}

/** Windows as `layer_types` says, or, where it is absent, of the layers that `isSliding` gives. */
export function windowsPerLayer(
  fields: ConfigFields,
  windowSize: number | undefined,
  isSliding: (layer: number) => boolean,
): Windows {
  return (
    windowsByType(fields, windowSize) ??
    Array.from({ length: fields.num_hidden_layers }, (_, layer) => (isSliding(layer) ? windowSize : undefined))
  );
}

/** The window of the families that have `use_sliding_window`: 4096 where it is on and no window is given. */
export function switchedWindow(fields: ConfigFields, defaultSize: number | undefined): number | undefined {
  if (!fields.use_sliding_window) return undefined;
  return fields.sliding_window === undefined ? defaultSize : (fields.sliding_window ?? undefined);
}

function windowsByType(fields: ConfigFields, windowSize: number | undefined): Windows | undefined {
  const { layer_types: types, num_hidden_layers: layerCount } = fields;
  if (types == null) return undefined;
  if (types.length !== layerCount) badConfig(`layer_types has ${types.length} entries for ${layerCount} layers`);
  return types.map((type) => {
    switch (type) {
      case FULL:
        return undefined;
      case SLIDING:
        return windowSize ?? badConfig(`layer_types has ${SLIDING}, but there is no sliding window`);
      default:
        return badConfig(`the layer type ${quote(type)} is not supported; supported are ${FULL}, ${SLIDING}`);
    }
  });
}
