import { testSampler } from '@stet/backend/conformance';
import { PortableSampler } from '../src/index.js';

testSampler(async (vocabSize) => ({ sampler: new PortableSampler(vocabSize), close: async () => {} }), {
  name: 'the portable sampler',
});
