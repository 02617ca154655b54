import { assertNever, type BackendFactory } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { createWebGpuBackend, WebGpu } from '@stet/backend-webgpu';
import { allowSoftwareGpu } from './software-gpu.js';

export const benchBackends = ['cpu', 'webgpu'] as const;
export type BenchBackend = (typeof benchBackends)[number];

/** A factory of backends that share a device, which is open until `close`. */
export interface BackendSource {
  readonly create: BackendFactory;
  close(): void;
}

/** Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where there is no WebGPU. */
export async function openBackends(name: BenchBackend): Promise<BackendSource> {
  switch (name) {
    case 'cpu':
      return { create: createCpuBackend(), close: () => {} };
    case 'webgpu': {
      allowSoftwareGpu();
      const device = await WebGpu.open();
      return { create: createWebGpuBackend({ device }), close: () => device.close() };
    }
    default:
      return assertNever(name);
  }
}
