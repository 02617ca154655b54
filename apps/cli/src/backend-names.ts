/** What `--backend` can be. `webgpu+cpu` decodes on the first and verifies on the second. */
export const backendNames = ['cpu', 'reference', 'webgpu', 'webgpu+cpu'] as const;

export type BackendName = (typeof backendNames)[number];

/** Whether a backend, or a part of a composed one, is the CPU backend. */
export function usesCpuBackend(name: string): boolean {
  return name.split('+').includes('cpu');
}
