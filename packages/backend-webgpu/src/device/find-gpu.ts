import { StetError } from '@stet/backend';

/** A variable, so that bundlers for browsers do not look for the package. */
const NODE_PACKAGE = 'webgpu';

interface NodePackage {
  create(options: string[]): GPU;
  globals: Record<string, unknown>;
}

/** How a GPU is found where none is given. */
export interface FindGpuOptions {
  /** Options of Dawn for Node alone, e.g. `backend=vulkan`. */
  readonly dawn?: readonly string[];
}

/**
 * `navigator.gpu` in a page, Dawn by the package `webgpu` in Node. Rejects with `STET_ERR_BACKEND_UNAVAILABLE`, which says
 * what to install.
 */
export async function findGpu({ dawn = [] }: FindGpuOptions = {}): Promise<GPU> {
  const page = (globalThis as { navigator?: { gpu?: GPU } }).navigator?.gpu;
  if (page) return page;
  if (!isNode()) {
    throw unavailable(
      'this page has no WebGPU: open it over https or from localhost in a browser that has it, e.g. Chrome or Edge 113, Firefox 141, Safari 26',
    );
  }
  const { create } = await importDawn();
  const key = dawn.join(' ');
  try {
    const gpu = instances.get(key) ?? create([...dawn]);
    instances.set(key, gpu);
    return gpu;
  } catch (cause) {
    throw unavailable('Dawn could not be started', cause);
  }
}

/** One instance of Dawn a process, kept for ever: a process dies when one is collected, even after its devices are gone. */
const instances = new Map<string, GPU>();

async function importDawn(): Promise<NodePackage> {
  try {
    return (await import(/* @vite-ignore */ NODE_PACKAGE)) as NodePackage;
  } catch (cause) {
    throw unavailable('Node has no WebGPU of its own; run: npm install webgpu', cause);
  }
}

function isNode(): boolean {
  return (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;
}

export function unavailable(message: string, cause?: unknown): StetError {
  return new StetError('STET_ERR_BACKEND_UNAVAILABLE', message, cause === undefined ? {} : { cause });
}
