import { conformanceModels, testBackend } from '@stet/backend/conformance';
import { describe, it, vi } from 'vitest';
import { createWebGpuBackend, liveBytes } from '../src/index.js';
import { isSoftwareGpu, withoutGpu } from './support/gpu.js';
import { sharedDevice } from './support/shared-device.js';
import { smallModel } from './support/small-model.js';

// The first test of a kernel waits for its pipeline, seconds where a CPU compiles it.
vi.setConfig({ testTimeout: 600_000 });

/** There the timers' thread waits for a processor, and not for the backend: its own work in a step is a millisecond. */
const eventLoop = {
  reason: 'a GPU on the CPU takes the processors that timers need',
  tests: ['lifecycle: the event loop turns while a step runs'],
};

describe.skipIf(withoutGpu)('the WebGPU backend', () => {
  const gpu = sharedDevice();
  // A GPU that is a program on the CPU would take many minutes for the three models of the suite.
  testBackend((load) => createWebGpuBackend({ device: gpu(), selfTest: false })(load), {
    name: isSoftwareGpu ? 'webgpu on a CPU, with one small model,' : 'webgpu',
    liveBytes,
    models: isSoftwareGpu ? [smallModel()] : conformanceModels(),
    skip: isSoftwareGpu ? [eventLoop] : [],
  });
});

if (withoutGpu !== undefined) it.skip(`the WebGPU backend is not tested here (${withoutGpu})`, () => {});
