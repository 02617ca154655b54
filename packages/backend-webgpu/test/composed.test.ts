import { readFileSync } from 'node:fs';
import { type Backend, type BackendFactory, composeBackends } from '@stet/backend';
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
import { sharedDevice } from './support/shared-device.js';

const recorded = JSON.parse(readFileSync(new URL('vectors/answers.json', import.meta.url), 'utf8')) as Record<
  string,
  Answer
>;
const cpu = cpuFeatures();
const without = withoutGpu ?? (cpu.available ? undefined : cpu.reason);

/** Rows that a backend ran, by schedule. */
interface RowCounts {
  fast: number;
  canonical: number;
}

function countingRows(create: BackendFactory, counts: RowCounts): BackendFactory {
  return async (load) => {
    const backend = await create(load);
    const counted: Backend = {
      info: backend.info,
      ...(backend.sampler && { sampler: backend.sampler }),
      forward: (step) => {
        counts.fast += step.fast?.tokens.length ?? 0;
        counts.canonical += step.canonical?.tokens.length ?? 0;
        return backend.forward(step);
      },
      close: () => backend.close(),
    };
    return counted;
  };
}

describe.skipIf(without)('deterministic requests that WebGPU decodes and the CPU verifies', () => {
  const gpu = sharedDevice();

  it.each(answerFormats)(
    'have the recorded tokens, log-probabilities and hashes, in %s',
    {
      timeout: 600_000,
    },
    async (format) => {
      const onGpu: RowCounts = { fast: 0, canonical: 0 };
      const onCpu: RowCounts = { fast: 0, canonical: 0 };
      const webgpu: BackendFactory = (load) => createWebGpuBackend({ device: gpu(), selfTest: false })(load);
      const answers = await answersOf(format, {
        backend: composeBackends({
          fast: countingRows(webgpu, onGpu),
          canonical: countingRows(createCpuBackend({ threads: 2 }), onCpu),
        }),
        open: () => loadModelFolder(talesFolder, { name: talesName, format }),
        // Windows shorter than the outputs, so that most tokens are decoded first.
        policy: dvr({ windowTokens: 5 }),
        company: 'together',
      });
      expect(answers).toEqual(expectedOf(recorded, format));
      expect([onGpu.canonical, onCpu.fast]).toEqual([0, 0]);
      expect(Math.min(onGpu.fast, onCpu.canonical)).toBeGreaterThan(0);
    },
  );
});

if (without !== undefined) it.skip(`WebGPU and the CPU are not composed here (${without})`, () => {});
