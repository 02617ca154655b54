import { StetError } from '@stet/backend';
import { pathOf } from '../http/responses.js';
import type { Route } from '../http/router.js';
import { errorResponse } from './errors.js';

export const MODELS_PATH = '/v1/models';

/** `GET /v1/models` and `GET /v1/models/{id}`: the one model that is served. */
export function modelRoutes(id: string, createdSeconds: number): Route[] {
  const model = { id, object: 'model', created: createdSeconds, owned_by: 'stet' };
  return [
    {
      method: 'GET',
      path: MODELS_PATH,
      access: 'keyed',
      handle: () => ({ status: 200, body: { object: 'list', data: [model] } }),
    },
    {
      method: 'GET',
      path: `${MODELS_PATH}/*`,
      access: 'keyed',
      handle: ({ request }) =>
        decoded(pathOf(request).slice(MODELS_PATH.length + 1)) === id
          ? { status: 200, body: model }
          : errorResponse(new StetError('STET_ERR_UNKNOWN_MODEL', `model: this server serves "${id}"`), MODEL_PARAM),
    },
  ];
}

const MODEL_PARAM: ReadonlySet<string> = new Set(['model']);

/** Undefined for what is no encoded name. */
function decoded(name: string): string | undefined {
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined;
  }
}
