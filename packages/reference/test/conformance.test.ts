import { testBackend, testOps } from '@stet/backend/conformance';
import { createReferenceBackend, createReferenceOpRunner } from '../src/index.js';

testBackend(createReferenceBackend, { name: 'the reference backend' });
testOps(() => createReferenceOpRunner(), { name: 'the reference operations' });
