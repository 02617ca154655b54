import { SUBPROTOCOL, TICKET_PREFIX } from './constants.js';

/** What a page offers to show a ticket: `new WebSocket(url, subprotocolsWith(ticket))`. */
export function subprotocolsWith(ticket: string): string[] {
  return [SUBPROTOCOL, `${TICKET_PREFIX}${ticket}`];
}

/** The ticket among the subprotocols of a `Sec-WebSocket-Protocol` header, the first if there are several. */
export function ticketOf(header: string | undefined): string | undefined {
  const offered = header?.split(',').map((name) => name.trim());
  return offered?.find((name) => name.startsWith(TICKET_PREFIX))?.slice(TICKET_PREFIX.length);
}

/**
 * What to answer to the subprotocols that were offered: `stet.v1`, or else the first that is no ticket, because only
 * then can a client read the close code that says it is not spoken here. False where there is none.
 */
export function chooseSubprotocol(offered: ReadonlySet<string>): string | false {
  if (offered.has(SUBPROTOCOL)) return SUBPROTOCOL;
  return [...offered].find((name) => !name.startsWith(TICKET_PREFIX)) ?? false;
}
