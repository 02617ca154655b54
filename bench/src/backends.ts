import { assertNever, type BackendFactory, composeBackends, StetError } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { createWebGpuBackend, WebGpu } from '@stet/backend-webgpu';
import { createReferenceBackend } from '@stet/reference';
import { allowSoftwareGpu } from './software-gpu.js';

export const studyBackends = ['cpu', 'webgpu', 'webgpu+cpu', 'reference'] as const;
export type StudyBackend = (typeof studyBackends)[number];

/** `native`: the quickest kernels. `batch-shaped`: reductions split by the shape of the batch, as GPU libraries do; a study mode of the CPU backend. */
export const fastModes = ['native', 'batch-shaped'] as const;
export type FastMode = (typeof fastModes)[number];

export interface BackendChoice {
  readonly backend: StudyBackend;
  readonly fast: FastMode;
  readonly threads: number;
}

/** A factory of backends that share a device, which is open until `close`. */
export interface BackendSource {
  readonly create: BackendFactory;
  close(): void;
}

/** Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where there is no WebGPU, with `STET_ERR_UNSUPPORTED` for a mode that the backend lacks. */
export async function openBackends({ backend, fast, threads }: BackendChoice): Promise<BackendSource> {
  if (fast === 'batch-shaped' && backend !== 'cpu') {
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `--fast batch-shaped is a study mode of the CPU backend, not of ${backend}: leave --backend out`,
    );
  }
  switch (backend) {
    case 'cpu':
      return { create: createCpuBackend({ threads, fast }), close: () => {} };
    case 'reference':
      return { create: createReferenceBackend, close: () => {} };
    case 'webgpu':
      return openWebGpu((create) => create);
    case 'webgpu+cpu':
      return openWebGpu((create) => composeBackends({ fast: create, canonical: createCpuBackend({ threads }) }));
    default:
      return assertNever(backend);
  }
}

async function openWebGpu(compose: (create: BackendFactory) => BackendFactory): Promise<BackendSource> {
  allowSoftwareGpu();
  const device = await WebGpu.open();
  return { create: compose(createWebGpuBackend({ device })), close: () => device.close() };
}
