import { assertNever, type BackendFactory } from '@stet/backend';
import { createEngine, type StetEngine } from '@stet/engine';
import { loadModel, urlSource } from '@stet/model';
import type { BackendName, EngineChoice, OpenProgress } from './messages.js';
import { talesBytes, talesFiles } from './tales-files.js';

/** About ten sequences of the embedded model's whole context: a phone has no more to spare. */
const KV_BYTES = 64 * 2 ** 20;
/** As many as the page lets run beside a request, and a few of its own. */
const MAX_RUNNING = 40;
const MAX_WAITING = 64;

export interface OpenOptions {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: OpenProgress) => void;
}

/** The embedded model, fetched from this page's server, on the backend that was chosen and on no other. */
export function openEngine(
  { backend, policy }: EngineChoice,
  { signal, onProgress }: OpenOptions,
): Promise<StetEngine> {
  const arrived = new Map<string, number>();
  const source = urlSource(talesFiles, {
    location: 'tales',
    signal,
    onProgress: (name, bytes) => {
      arrived.set(name, bytes);
      const done = [...arrived.values()].reduce((sum, one) => sum + one, 0);
      onProgress({ phase: 'fetch', done, total: talesBytes() });
    },
  });
  const model = loadModel(source, {
    name: 'tales',
    signal,
    onProgress: (done, total) => onProgress({ phase: 'digest', done, total }),
  });
  return createEngine({
    model,
    backend: async (load) => (await importBackend(backend))(load),
    policy,
    kv: { memoryBytes: KV_BYTES },
    limits: { maxRunning: MAX_RUNNING, maxWaiting: MAX_WAITING },
    signal,
    onProgress: ({ done, total }) => onProgress({ phase: 'weights', done, total }),
  });
}

/** Only the code of the chosen backend is fetched. */
async function importBackend(name: BackendName): Promise<BackendFactory> {
  switch (name) {
    case 'webgpu':
      return (await import('@stet/backend-webgpu')).createWebGpuBackend();
    case 'reference':
      return (await import('@stet/reference')).createReferenceBackend;
    default:
      return assertNever(name);
  }
}
