import { assert, assertNever } from '@stet/backend';
import { seededUniform } from '../random.js';

/** A greedy request that does not end early. */
export interface GreedyRequest {
  readonly promptTokens: readonly number[];
  readonly outputTokens: number;
}

/** A request that is there for the batch alone. `deterministic` where it is answered by somebody who knows the difference. */
export interface NeighbourRequest extends GreedyRequest {
  readonly deterministic: boolean;
}

/** One client. It asks what everybody is compared by, or sends random requests one after the other. */
export type Lane =
  | { readonly kind: 'target' }
  | { readonly kind: 'neighbour'; readonly requests: readonly NeighbourRequest[] };

/** Clients that begin together, in this order. */
export interface Crowd {
  readonly target: GreedyRequest;
  readonly lanes: readonly Lane[];
}

export interface CrowdOptions {
  /** Targets of all crowds together. */
  readonly targets: number;
  readonly outputTokens: number;
  readonly seed: number;
}

/** Sequences that somebody must be able to run at once, and positions of the longest. */
export const MAX_LANES = 16;
export const maxPositions = ({ outputTokens }: Pick<CrowdOptions, 'outputTokens'>): number =>
  Math.max(TARGET_TOKENS, NEIGHBOUR_TOKENS.most) + outputTokens;

const TARGET_TOKENS = 32;
const NEIGHBOUR_TOKENS = { least: 8, most: 64 };
const LEAST_OUTPUT_TOKENS = 4;
const MAX_TARGETS = MAX_LANES / 2;
const MAX_NEIGHBOURS = MAX_LANES - MAX_TARGETS;

/**
 * A number of equal requests in seeded crowds: 1 to 8 of them among 0 to 8 clients of random requests, whose ends and new
 * prompts change the batch at every few tokens. The first is alone.
 */
export function crowdsOf(text: readonly number[], { targets, outputTokens, seed }: CrowdOptions): Crowd[] {
  const uniform = seededUniform(seed);
  const between = (least: number, most: number): number => least + Math.floor(uniform() * (most - least + 1));
  const target = { promptTokens: text.slice(0, TARGET_TOKENS), outputTokens };
  const neighbour = (): Lane => {
    const requests: NeighbourRequest[] = [];
    for (let written = 0; written < outputTokens; written += requests.at(-1)!.outputTokens) {
      const promptTokens = between(NEIGHBOUR_TOKENS.least, NEIGHBOUR_TOKENS.most);
      const start = between(0, text.length - promptTokens);
      requests.push({
        promptTokens: text.slice(start, start + promptTokens),
        outputTokens: between(Math.min(LEAST_OUTPUT_TOKENS, outputTokens), outputTokens),
        deterministic: uniform() < 0.5,
      });
    }
    return { kind: 'neighbour', requests };
  };
  const crowds: Crowd[] = [{ target, lanes: [{ kind: 'target' }] }];
  for (let left = targets - 1; left > 0; ) {
    const equal = Math.min(left, between(1, MAX_TARGETS));
    const lanes: Lane[] = Array.from({ length: equal }, () => ({ kind: 'target' }));
    const neighbours = between(0, MAX_NEIGHBOURS);
    for (let i = 0; i < neighbours; i++) lanes.splice(between(0, lanes.length), 0, neighbour());
    crowds.push({ target, lanes });
    left -= equal;
  }
  return crowds;
}

/** Output tokens of one request; rejects when `signal` ends it. */
export type Ask = (
  request: GreedyRequest,
  signal: AbortSignal,
  lane: { readonly kind: 'target' } | { readonly kind: 'neighbour'; readonly deterministic: boolean },
) => Promise<readonly number[]>;

/** The answers to the targets, in the order of lanes. Neighbours that still write then are ended; that one failed is thrown. */
export async function askCrowd({ target, lanes }: Crowd, ask: Ask): Promise<(readonly number[])[]> {
  const end = new AbortController();
  const answers: Promise<readonly number[]>[] = [];
  const neighbours: Promise<void>[] = [];
  for (const lane of lanes) {
    switch (lane.kind) {
      case 'target':
        answers.push(ask(target, end.signal, lane));
        break;
      case 'neighbour':
        neighbours.push(askInTurn(lane.requests, ask, end.signal));
        break;
      default:
        assertNever(lane);
    }
  }
  const settled = Promise.allSettled([...answers, ...neighbours]);
  try {
    await Promise.all(answers);
  } finally {
    end.abort();
    await settled;
  }
  await Promise.all(neighbours);
  return Promise.all(answers);
}

async function askInTurn(requests: readonly NeighbourRequest[], ask: Ask, signal: AbortSignal): Promise<void> {
  assert(requests.length > 0, 'a neighbour asks something');
  for (const { deterministic, ...request } of requests) {
    if (signal.aborted) return;
    try {
      await ask(request, signal, { kind: 'neighbour', deterministic });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}
