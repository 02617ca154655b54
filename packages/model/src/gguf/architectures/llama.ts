import { type GgufArchitecture, plainDecoder } from './architecture.js';

/**
 * Llama, and Mistral, whose files have the same name. The converter turns Llama's rope type `llama3` into a tensor of
 * factors, and drops Mistral's window; a file that has one all the same means it as Mistral does.
 */
export const llama: GgufArchitecture = {
  ...plainDecoder,
  family: 'llama',
  headRows: 'pairs',
  slidingWindow: 'all layers',
  ropeFactors: 'tensor',
};
