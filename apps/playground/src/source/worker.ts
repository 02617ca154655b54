import { EngineHost } from './engine-host.js';
import type { ToWorker } from './messages.js';

/** What this file needs of the worker it runs in. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: unknown): void;
}

const scope = globalThis as unknown as WorkerScope;
const host = new EngineHost((message) => scope.postMessage(message));
scope.onmessage = ({ data }) => host.receive(data);
