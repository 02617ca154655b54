import { readFileSync } from 'node:fs';
import type { BackendFactory, WeightFormat } from '@stet/backend';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { dvr } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { talesFolder, talesName } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import { createWebGpuBackend } from '../src/index.js';
import { answerFormats } from './support/answer-cases.js';
import { type Answer, answersOf } from './support/answers.js';
import { expectedOf } from './support/expected.js';
import { withoutGpu } from './support/gpu.js';
import { referenceAnswers } from './support/reference-answers.js';
import { sharedDevice } from './support/shared-device.js';

const recorded = JSON.parse(readFileSync(new URL('vectors/answers.json', import.meta.url), 'utf8')) as Record<
  string,
  Answer
>;
const cpu = cpuFeatures();

/** All requests at once, verified in windows as short as the outputs. */
function answersIn(format: WeightFormat, backend: BackendFactory): Promise<Record<string, Answer>> {
  return answersOf(format, {
    backend,
    open: () => loadModelFolder(talesFolder, { name: talesName, format }),
    policy: dvr({ windowTokens: 5 }),
    company: 'together',
  });
}

describe('deterministic requests to the embedded model', () => {
  it('are answered by the reference as recorded', { timeout: 480_000 }, async () => {
    expect(await referenceAnswers()).toEqual(recorded);
  });

  it.skipIf(!cpu.available).each(answerFormats)(
    `are answered by the CPU backend as recorded, in %s${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`,
    async (format) => {
      expect(await answersIn(format, createCpuBackend({ threads: 2 }))).toEqual(expectedOf(recorded, format));
    },
  );

  describe.skipIf(withoutGpu)('and WebGPU', () => {
    const gpu = sharedDevice();
    it.each(answerFormats)('are answered by it as recorded, in %s', { timeout: 480_000 }, async (format) => {
      const backend: BackendFactory = (load) => createWebGpuBackend({ device: gpu(), selfTest: false })(load);
      expect(await answersIn(format, backend)).toEqual(expectedOf(recorded, format));
    });
  });
});

if (withoutGpu !== undefined) it.skip(`the WebGPU backend is not asked (${withoutGpu})`, () => {});
