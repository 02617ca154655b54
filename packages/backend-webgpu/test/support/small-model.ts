import { buildModel } from '@stet/backend/conformance';

/** All formats, a window, norms of heads and sizes that nothing divides, in little work. */
export const smallModel = () =>
  buildModel({
    name: 'small',
    seed: 17,
    vocabSize: 50,
    contextLength: 131,
    layerCount: 2,
    hiddenSize: 24,
    headCount: 2,
    kvHeadCount: 1,
    headSize: 8,
    feedForwardSize: 40,
    hasBiases: false,
    headNorms: 'headsOfQueryAndKey',
    windowSizes: [21],
    head: 'own',
    attentionFormat: 'q8',
    feedForwardFormat: 'q4',
    headFormat: 'bf16',
  });
