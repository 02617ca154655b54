import { type GgufArchitecture, plainDecoder } from './architecture.js';

/** OLMo 2. OLMo 3 has the same name, and a window. */
export const olmo2: GgufArchitecture = {
  ...plainDecoder,
  family: 'olmo2',
  blockNorms: 'after',
  queryKeyNorms: 'whole',
};
