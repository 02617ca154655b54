import { retryAfter } from '../http/headers.js';
import { httpError } from '../http/responses.js';
import type { Route } from '../http/router.js';
import { type Admission, admissionError } from './admission.js';
import type { TicketOffice } from './tickets.js';

export const TICKETS_PATH = '/v1/tickets';

/** `POST /v1/tickets`: whoever has a key gets a ticket to give to a page. */
export function ticketRoute(tickets: TicketOffice, admission: Admission): Route {
  return {
    method: 'POST',
    path: TICKETS_PATH,
    access: 'keyed',
    handle({ principal }) {
      const refusal = admission.admitRequest(principal);
      if (refusal !== undefined) return admissionError(refusal);
      const answer = tickets.issue(principal);
      if (answer.kind === 'issued')
        return { status: 200, body: { ticket: answer.ticket, expiresInMs: answer.expiresInMs } };
      const message = 'this key has as many unused tickets as it may have';
      return httpError(429, 'STET_ERR_RATE_LIMITED', message, retryAfter(answer.retryAfterMs));
    },
  };
}
