import { STREAM_PATH } from '../protocol/index.js';
import { httpError, type JsonResponse } from './responses.js';
import type { Route } from './router.js';

/** What the plain routes tell about the server. */
export interface ServerState {
  readonly phase: 'ready' | 'closing';
  readonly model: string;
  readonly backend: string;
  readonly fingerprint: string;
  readonly contextLength: number;
}

/** `/health`, `/ready`, and the stream's path without an upgrade. */
export function stateRoutes(state: () => ServerState): Route[] {
  return [
    { method: 'GET', path: '/health', access: 'open', handle: () => ({ status: 200, body: { status: 'ok' } }) },
    { method: 'GET', path: '/ready', access: 'open', handle: () => ready(state()) },
    { method: 'GET', path: STREAM_PATH, access: 'open', handle: upgradeRequired },
  ];
}

function ready({ phase, ...model }: ServerState): JsonResponse {
  return phase === 'ready'
    ? { status: 200, body: { status: 'ready', ...model } }
    : httpError(503, 'STET_ERR_SHUTTING_DOWN', 'the server is going away');
}

function upgradeRequired(): JsonResponse {
  return httpError(426, 'STET_ERR_BAD_REQUEST', `${STREAM_PATH} speaks WebSocket only`, { Upgrade: 'websocket' });
}
