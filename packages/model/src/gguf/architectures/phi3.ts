import { type GgufArchitecture, plainDecoder } from './architecture.js';

/** A window is that of all layers, as in transformers (llama.cpp leaves it out, with a warning). */
export const phi3: GgufArchitecture = {
  ...plainDecoder,
  family: 'phi3',
  gateAndUp: 'fused',
  slidingWindow: 'all layers',
};
