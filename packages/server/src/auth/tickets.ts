import { createHash, randomBytes } from 'node:crypto';
import type { Principal } from './principal.js';

const TICKET_BYTES = 32;

export interface TicketLimits {
  /** How long a ticket can be used. */
  readonly ticketMs: number;
  /** Tickets of one key that are neither used nor expired. */
  readonly maxTicketsPerKey: number;
}

export type TicketAnswer =
  | { readonly kind: 'issued'; readonly ticket: string; readonly expiresInMs: number }
  | { readonly kind: 'refused'; readonly retryAfterMs: number };

interface Ticket {
  readonly principal: Principal;
  readonly expiresAtMs: number;
}

/**
 * Single-use tickets, for pages: a browser cannot send a header with a WebSocket, and an address would end up in logs.
 * Only hashes are kept, so what the look-up compares is nothing that a guess could steer.
 */
export class TicketOffice {
  /** In the order in which they expire. */
  readonly #tickets = new Map<string, Ticket>();
  readonly #counts = new Map<Principal, number>();

  /** `nowMs` is a clock that never goes back. */
  constructor(
    private readonly limits: TicketLimits,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Tickets that are neither used nor expired. */
  get count(): number {
    this.#expire();
    return this.#tickets.size;
  }

  issue(principal: Principal): TicketAnswer {
    this.#expire();
    const nowMs = this.nowMs();
    if (this.#countOf(principal) >= this.limits.maxTicketsPerKey) {
      const oldest = [...this.#tickets.values()].find((ticket) => ticket.principal === principal)!;
      return { kind: 'refused', retryAfterMs: oldest.expiresAtMs - nowMs };
    }
    const ticket = randomBytes(TICKET_BYTES).toString('base64url');
    this.#tickets.set(hashOf(ticket), { principal, expiresAtMs: nowMs + this.limits.ticketMs });
    this.#counts.set(principal, this.#countOf(principal) + 1);
    return { kind: 'issued', ticket, expiresInMs: this.limits.ticketMs };
  }

  /** Whose ticket this is; it is used up then. */
  redeem(ticket: string): Principal | undefined {
    this.#expire();
    const hash = hashOf(ticket);
    const found = this.#tickets.get(hash);
    if (found !== undefined) this.#drop(hash, found);
    return found?.principal;
  }

  /** Takes back all tickets of somebody whose key is no more. */
  revoke(principal: Principal): void {
    for (const [hash, ticket] of this.#tickets) {
      if (ticket.principal === principal) this.#drop(hash, ticket);
    }
  }

  #expire(): void {
    const nowMs = this.nowMs();
    for (const [hash, ticket] of this.#tickets) {
      if (ticket.expiresAtMs > nowMs) return;
      this.#drop(hash, ticket);
    }
  }

  #drop(hash: string, { principal }: Ticket): void {
    this.#tickets.delete(hash);
    const rest = this.#countOf(principal) - 1;
    if (rest === 0) this.#counts.delete(principal);
    else this.#counts.set(principal, rest);
  }

  #countOf(principal: Principal): number {
    return this.#counts.get(principal) ?? 0;
  }
}

function hashOf(ticket: string): string {
  return createHash('sha256').update(ticket).digest('base64');
}
