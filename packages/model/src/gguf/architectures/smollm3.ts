import { type GgufArchitecture, plainDecoder } from './architecture.js';

/** Every fourth layer has no rope; the metadata do not say so, llama.cpp has the number in its source. */
const ROPE_INTERVAL = 4;

export const smollm3: GgufArchitecture = {
  ...plainDecoder,
  family: 'smollm3',
  headRows: 'pairs',
  positions: (layer) => ((layer + 1) % ROPE_INTERVAL === 0 ? 'none' : 'rope'),
};
