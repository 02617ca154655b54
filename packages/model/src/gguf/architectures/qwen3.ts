import { type GgufArchitecture, plainDecoder } from './architecture.js';

export const qwen3: GgufArchitecture = { ...plainDecoder, family: 'qwen3', queryKeyNorms: 'heads' };
