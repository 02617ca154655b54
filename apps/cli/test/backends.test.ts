import { cpuFeatures } from '@stet/backend-cpu';
import { describe, expect, it } from 'vitest';
import { isSoftwareGpu, withoutGpu } from '../../../packages/backend-webgpu/test/support/gpu.js';
import { builtTitle, isBuilt, stet } from './support/stet.js';

const cpu = cpuFeatures();
const onCpu = cpu.available ? '' : ` (skipped: ${cpu.reason})`;
/** A GPU on the CPU tests itself for long when it starts, and other tests run beside it. */
const timeout = 600_000;

const STORY = ['run', 'Once upon a time', '--max-tokens', '6', '--context', '64', '--deterministic', '--stats'];

async function hashOn(backend: string, ...options: string[]): Promise<string> {
  const { code, stderr } = await stet([...STORY, '--backend', backend, ...options]);
  const hash = /^hash +([0-9a-f]{64})$/m.exec(stderr)?.[1];
  expect({ backend, code, stderr, hash }).toEqual({ backend, code: 0, stderr, hash: expect.any(String) });
  expect(stderr).toContain(` on ${backend} (`);
  return hash!;
}

describe.skipIf(!isBuilt || process.platform !== 'linux')(`${builtTitle} where Vulkan has no driver`, () => {
  it.each(['webgpu', 'webgpu+cpu'])(
    'runs nothing else in place of %s, and says what to do',
    { timeout },
    async (name) => {
      const nowhere = { VK_DRIVER_FILES: '/nowhere', VK_ICD_FILENAMES: '/nowhere' };
      expect(await stet(['run', 'x', '--backend', name], nowhere)).toMatchObject({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringMatching(
          /^error STET_ERR_BACKEND_UNAVAILABLE: .*\b(install|driver)\b.*\nhint: .*\nhint: .*reference/m,
        ),
      });
    },
  );
});

describe.skipIf(!isBuilt || withoutGpu)(`${builtTitle} on WebGPU`, () => {
  it.skipIf(isSoftwareGpu)(
    `answers a deterministic request as the reference does${isSoftwareGpu ? ' (skipped: on a CPU the answer of `stet doctor` has to do)' : ''}`,
    { timeout },
    async () => {
      expect(await hashOn('webgpu')).toBe(await hashOn('reference'));
    },
  );

  it.skipIf(!cpu.available)(
    `answers as the CPU does where the CPU verifies what the GPU decodes, with its options${onCpu}`,
    { timeout },
    async () => {
      const onBoth = await hashOn('webgpu+cpu', '--threads', '1', '--policy', 'dvr', '--window', '4');
      expect(onBoth).toBe(await hashOn('cpu'));
    },
  );
});

if (withoutGpu !== undefined) it.skip(`stet is not run on WebGPU here (${withoutGpu})`, () => {});
