import type { EngineHealth, EngineInfo } from '@stet/engine';
import { STREAM_PATH } from '../protocol/index.js';
import { retryAfter } from './headers.js';
import { httpError, type JsonResponse } from './responses.js';
import type { Route } from './router.js';

/** What the plain routes tell about the server. */
export interface ServerState {
  readonly isClosing: boolean;
  readonly health: EngineHealth;
  readonly info: EngineInfo;
}

/** When to look again at a server whose backend is being made anew. */
const RECREATION_RETRY_MS = 2_000;

/** `/health`, `/ready`, and the stream's path without an upgrade. */
export function stateRoutes(state: () => ServerState): Route[] {
  return [
    { method: 'GET', path: '/health', access: 'open', handle: () => ({ status: 200, body: { status: 'ok' } }) },
    { method: 'GET', path: '/ready', access: 'open', handle: () => ready(state()) },
    { method: 'GET', path: STREAM_PATH, access: 'open', handle: upgradeRequired },
  ];
}

function ready({ isClosing, health, info }: ServerState): JsonResponse {
  if (isClosing) return httpError(503, 'STET_ERR_SHUTTING_DOWN', 'the server is going away');
  switch (health.state) {
    case 'ready':
      return { status: 200, body: { status: 'ready', ...readyBody(info) } };
    case 'recreating':
      return httpError(
        503,
        'STET_ERR_DEVICE_LOST',
        'the device was lost, and a backend is being made in its place; requests wait',
        retryAfter(RECREATION_RETRY_MS),
      );
    case 'gone':
      // Nothing but a restart helps, so nobody is told when to come back.
      return httpError(503, health.error.code, 'the engine takes no requests any more', { 'x-should-retry': 'false' });
  }
}

/** A backend that promises portable bits has reproduced the golden vectors when it was loaded, or there would be none. */
function readyBody(info: EngineInfo): object {
  const { model, backend, fingerprint, numerics, guarantee, contextLength, chatTemplate } = info;
  const selfTest = guarantee === 'portable' ? 'passed' : 'none';
  return { model, backend, fingerprint, numerics, guarantee, selfTest, contextLength, chatTemplate };
}

function upgradeRequired(): JsonResponse {
  return httpError(426, 'STET_ERR_BAD_REQUEST', `${STREAM_PATH} speaks WebSocket only`, { Upgrade: 'websocket' });
}
