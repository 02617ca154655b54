import type { IncomingMessage } from 'node:http';
import { httpError, type JsonResponse, pathOf } from '../http/responses.js';
import { STREAM_PATH, ticketOf } from '../protocol/index.js';
import type { KeyRing } from './keys.js';
import type { Authenticator, Principal } from './principal.js';
import type { TicketOffice } from './tickets.js';

/** For a server with keys: a bearer token or, on the stream's path, a ticket among the subprotocols. */
export class KeyAuthenticator implements Authenticator {
  constructor(
    private readonly keys: KeyRing,
    private readonly tickets: TicketOffice,
  ) {}

  authenticate(request: IncomingMessage): Principal | JsonResponse {
    const { authorization } = request.headers;
    if (authorization !== undefined) {
      const key = /^Bearer +([^\s]+) *$/i.exec(authorization)?.[1];
      const principal = key === undefined ? undefined : this.keys.find(key);
      return principal ?? unauthorized('the key is not one of this server', 'invalid_token');
    }
    const ticket = pathOf(request) === STREAM_PATH ? ticketOf(request.headers['sec-websocket-protocol']) : undefined;
    if (ticket === undefined) return unauthorized('this server needs a key');
    return this.tickets.redeem(ticket) ?? unauthorized('the ticket is used, expired or none of this server');
  }
}

function unauthorized(message: string, error?: 'invalid_token'): JsonResponse {
  const challenge = error === undefined ? 'Bearer realm="stet"' : `Bearer realm="stet", error="${error}"`;
  return httpError(401, 'STET_ERR_UNAUTHORIZED', message, { 'WWW-Authenticate': challenge });
}
