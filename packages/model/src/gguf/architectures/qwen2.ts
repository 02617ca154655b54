import { type GgufArchitecture, plainDecoder } from './architecture.js';

export const qwen2: GgufArchitecture = { ...plainDecoder, family: 'qwen2', queryKeyValueBias: 'always' };
