import { fc } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { Admission, type Admitted, admissionError } from '../src/auth/admission.js';
import type { KeyLimits, Principal } from '../src/auth/principal.js';
import { TicketOffice } from '../src/auth/tickets.js';
import { TokenBucket } from '../src/auth/token-bucket.js';

const somebody = (limits: KeyLimits = {}): Principal => ({ name: 'somebody', limits });

describe('admission', () => {
  it('keeps each principal to its own sockets and streams, and counts a release once', () => {
    const admission = new Admission(() => 0);
    const one = somebody({ maxSockets: 1, maxStreams: 2 });
    const other = somebody({ maxSockets: 1, maxStreams: 2 });
    const socket = admission.admitSocket(one) as Admitted;
    expect(admission.admitSocket(one)).toMatchObject({ kind: 'refused', code: 'STET_ERR_TOO_MANY_SOCKETS' });
    expect(admission.admitSocket(other).kind).toBe('admitted');
    const stream = admission.admitStream(one) as Admitted;
    expect(admission.admitStream(one).kind).toBe('admitted');
    expect(admission.admitStream(one)).toMatchObject({ kind: 'refused', code: 'STET_ERR_RATE_LIMITED' });
    for (let times = 0; times < 3; times++) {
      socket.release();
      stream.release();
    }
    expect(admission.admitSocket(one).kind).toBe('admitted');
    expect(admission.admitSocket(one).kind).toBe('refused');
    expect(admission.admitStream(one).kind).toBe('admitted');
    expect(admission.admitStream(one).kind).toBe('refused');
  });

  it('counts the sequences of a request, and says when they can never fit', () => {
    const admission = new Admission(() => 0);
    const principal = somebody({ maxStreams: 4 });
    const three = admission.admitStream(principal, 3) as Admitted;
    expect(admission.admitStream(principal, 2)).toMatchObject({ code: 'STET_ERR_RATE_LIMITED' });
    const never = admission.admitStream(principal, 5);
    expect(never).toEqual({
      kind: 'refused',
      code: 'STET_ERR_BAD_REQUEST',
      message: 'this key may run 4 requests at once, not 5',
    });
    if (never.kind === 'refused') expect(admissionError(never).status).toBe(400);
    three.release();
    expect(admission.admitStream(principal, 4).kind).toBe('admitted');
  });

  it('lets a minute of requests pass at once, then as many as its rate, and says when to come again', () => {
    let now = 0;
    const admission = new Admission(() => now);
    const principal = somebody({ requestsPerMinute: 60, maxStreams: 1000 });
    for (let count = 0; count < 59; count++) expect(admission.admitStream(principal).kind).toBe('admitted');
    expect(admission.admitRequest(principal)).toBeUndefined();
    const refusal = admission.admitStream(principal);
    expect(refusal).toMatchObject({ code: 'STET_ERR_RATE_LIMITED', retryAfterMs: 1000 });
    if (refusal.kind === 'refused') {
      const { status, headers } = admissionError(refusal);
      expect([status, headers]).toEqual([429, { 'Retry-After': '1', 'retry-after-ms': '1000' }]);
    }
    now += 999;
    expect(admission.admitRequest(principal)).toMatchObject({ retryAfterMs: 1 });
    now += 1;
    expect(admission.admitRequest(principal)).toBeUndefined();
    expect(admission.admitRequest(principal)).toMatchObject({ retryAfterMs: 1000 });
  });

  it('takes new limits of a principal at once', () => {
    const admission = new Admission(() => 0);
    const principal = { name: 'a', limits: {} as KeyLimits };
    for (let count = 0; count < 100; count++) admission.admitStream(principal);
    principal.limits = { maxStreams: 100, requestsPerMinute: 1 };
    expect(admission.admitStream(principal)).toMatchObject({ message: 'this key may run 100 requests at once' });
    expect(admission.admitRequest(principal)).toBeUndefined();
    expect(admission.admitRequest(principal)).toMatchObject({ retryAfterMs: 60_000 });
    principal.limits = {};
    expect(admission.admitRequest(principal)).toBeUndefined();
  });
});

describe('a token bucket', () => {
  it('never lets more pass in any span than a minute at once and its rate', () => {
    const steps = fc.array(fc.nat({ max: 5_000 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), steps, (perMinute, waits) => {
        const bucket = new TokenBucket(perMinute, 0);
        let now = 0;
        let taken = 0;
        for (const wait of waits) {
          now += wait;
          const waitMs = bucket.take(perMinute, now);
          if (waitMs === 0) taken++;
          else {
            expect(waitMs).toBeLessThanOrEqual(Math.ceil(60_000 / perMinute));
            now += waitMs;
            expect(bucket.take(perMinute, now)).toBe(0);
            taken++;
          }
          expect(taken).toBeLessThanOrEqual(perMinute + (now * perMinute) / 60_000 + 0.001);
        }
      }),
    );
  });
});

describe('tickets', () => {
  const office = (maxTicketsPerKey = 3) => {
    const clock = { now: 0 };
    return { clock, tickets: new TicketOffice({ ticketMs: 60_000, maxTicketsPerKey }, () => clock.now) };
  };
  const issue = (tickets: TicketOffice, principal: Principal) => {
    const answer = tickets.issue(principal);
    if (answer.kind === 'refused') throw new Error('refused');
    return answer.ticket;
  };

  it('are long, random, and each good for its owner once', () => {
    const { tickets } = office();
    const [one, other] = [somebody(), somebody()];
    const [first, second] = [issue(tickets, one), issue(tickets, other)];
    expect(first).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(first).not.toBe(second);
    expect(tickets.redeem(second)).toBe(other);
    expect(tickets.redeem(first)).toBe(one);
    for (const used of [first, second, '', 'x', first.slice(1)]) expect(tickets.redeem(used)).toBeUndefined();
    expect(tickets.count).toBe(0);
  });

  it('end after their time', () => {
    const { tickets, clock } = office();
    const owner = somebody();
    const early = issue(tickets, owner);
    clock.now = 30_000;
    const late = issue(tickets, owner);
    clock.now = 60_000;
    expect(tickets.redeem(early)).toBeUndefined();
    clock.now = 89_999;
    expect(tickets.count).toBe(1);
    expect(tickets.redeem(late)).toBe(owner);
  });

  it('are bounded for each key, and room comes with use, expiry and revocation', () => {
    const { tickets, clock } = office(2);
    const [one, other] = [somebody(), somebody()];
    const first = issue(tickets, one);
    clock.now = 10_000;
    issue(tickets, one);
    expect(tickets.issue(one)).toEqual({ kind: 'refused', retryAfterMs: 50_000 });
    const kept = issue(tickets, other);
    tickets.redeem(first);
    issue(tickets, one);
    expect(tickets.issue(one).kind).toBe('refused');
    tickets.revoke(one);
    expect(tickets.count).toBe(1);
    issue(tickets, one);
    expect(tickets.redeem(kept)).toBe(other);
    clock.now = 1e9;
    expect(tickets.count).toBe(0);
    issue(tickets, one);
    issue(tickets, one);
    expect(tickets.issue(one).kind).toBe('refused');
  });
});
