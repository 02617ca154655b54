import { conformanceModels } from '@stet/backend/conformance';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Kernel } from '../src/device/kernel.js';
import { createWebGpuBackend, liveBytes, type WebGpu } from '../src/index.js';
import { withoutGpu } from './support/gpu.js';
import { sharedDevice } from './support/shared-device.js';

const [model] = conformanceModels();
const load = { plan: model.plan, weights: model.weights, blockSize: 16, blockCount: 8, maxRows: 16 };

/** Kernels whose name begins so, a constant of theirs, what it is changed to, and what the refusal names. */
const mutations: readonly [string, string, string, RegExp][] = [
  ['swiglu', '45420u', '45421u', /swiglu.*value \d+/],
  ['rms_norm', '+ 0x800u', '+ 0x400u', /rmsNorm.*value \d+/],
  ['rope', '0xfffffffeu', '0xffffffffu', /rope.*value \d+/],
  ['prepare_q15', '+ 64) >> 7u', '+ 63) >> 7u', /linear q8.*value \d+/],
  ['kv_write', '+ 64) >> 7u', '+ 63) >> 7u', /attention.*value \d+/],
  ['argmax', 'max(a.key, b.runnerUp)', 'b.runnerUp', /runner-up logit/],
];

describe.skipIf(withoutGpu)('the self-test at start', { timeout: 600_000 }, () => {
  const gpu = sharedDevice();

  afterEach(() => expect(liveBytes()).toBe(0));

  it('passes, once a device, and leaves nothing behind', async () => {
    const submit = vi.spyOn(gpu().device.queue, 'submit');
    const first = await createWebGpuBackend({ device: gpu() })(load);
    const submissions = submit.mock.calls.length;
    const second = await createWebGpuBackend({ device: gpu() })(load);
    expect(submissions).toBeGreaterThan(20);
    expect(submit.mock.calls.length).toBe(submissions);
    submit.mockRestore();
    await Promise.all([first.close(), second.close()]);
  });

  it.each(mutations)('refuses %s with %s changed to %s', async (kernel, from, to, named) => {
    const mutant = withMutation(gpu(), kernel, from, to);
    const refused = { code: 'STET_ERR_CANONICAL_REFUSED', message: expect.stringMatching(named) };
    await expect(createWebGpuBackend({ device: mutant })(load)).rejects.toMatchObject(refused);
    await expect(createWebGpuBackend({ device: mutant })(load)).rejects.toMatchObject(refused);
    const untested = await createWebGpuBackend({ device: mutant, selfTest: false })(load);
    await untested.close();
  });
});

if (withoutGpu !== undefined) it.skip(`the WebGPU backend is not tested here (${withoutGpu})`, () => {});

/** The device with another text of some kernels; it shares all other pipelines. */
function withMutation(gpu: WebGpu, name: string, from: string, to: string): WebGpu {
  const compile: WebGpu['compile'] = (kernel) => gpu.compile(kernel.name.startsWith(name) ? mutated(kernel) : kernel);
  const mutated = (kernel: Kernel): Kernel =>
    Object.create(kernel, {
      source: {
        value: (features: WebGpu['features']) => {
          const text = kernel.source(features);
          if (!text.includes(from)) throw new Error(`${kernel.name} has no ${from}`);
          return text.replaceAll(from, to);
        },
      },
    }) as Kernel;
  return new Proxy(gpu, {
    get(target, key) {
      if (key === 'compile') return compile;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
