import type { BackendFactory } from '@stet/backend';
import { createReferenceBackend } from '@stet/reference';
import { afterAll, describe, expect, it } from 'vitest';
import { createWebGpuBackend, WebGpu } from '../src/index.js';
import { answerFormats } from './support/answer-cases.js';
import { answersOf } from './support/answers.js';
import { expectedOf } from './support/expected.js';
import { openTales } from './support/page-model.js';
import recorded from './vectors/answers.json';

const device = await WebGpu.open();
afterAll(() => device.close());

const backends: readonly [string, BackendFactory, 'alone' | 'together'][] = [
  ['reference', createReferenceBackend, 'alone'],
  ['WebGPU backend', createWebGpuBackend({ device }), 'together'],
];

describe.each(backends)('deterministic requests to the embedded model, in a page, on the %s', (_, backend, company) => {
  it.each(answerFormats)('are answered as recorded, in %s', async (format) => {
    const answers = await answersOf(format, { backend, open: openTales, policy: 'direct', company });
    expect(answers).toEqual(expectedOf(recorded, format));
  });
});
