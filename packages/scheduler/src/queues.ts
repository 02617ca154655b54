import { assert } from '@stet/backend';
import type { Sequence } from './sequence.js';

/** How much earlier a step of priority makes a request arrive. */
export const PRIORITY_MS = 10_000;

/**
 * Who is served first: by arrival, where a step of priority is worth ten seconds; then deterministic before ordinary,
 * then order of arrival. The order of two sequences never changes, and enough time beats any priority.
 */
export function serviceOrder(a: Sequence, b: Sequence): number {
  const aMs = a.arrivedMs - a.request.priority * PRIORITY_MS;
  const bMs = b.arrivedMs - b.request.priority * PRIORITY_MS;
  if (aMs !== bMs) return aMs - bMs;
  if (a.kind !== b.kind) return a.kind === 'deterministic' ? -1 : 1;
  return a.order - b.order;
}

/** Sequences in service order. */
export class SequenceQueue implements Iterable<Sequence> {
  private readonly items: Sequence[] = [];

  get length(): number {
    return this.items.length;
  }

  add(sequence: Sequence): void {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (serviceOrder(this.items[middle]!, sequence) < 0) low = middle + 1;
      else high = middle;
    }
    this.items.splice(low, 0, sequence);
  }

  remove(sequence: Sequence): void {
    const index = this.items.indexOf(sequence);
    assert(index >= 0, `sequence ${sequence.id} is not in the queue`);
    this.items.splice(index, 1);
  }

  /** From the last in service order to the first. */
  *backwards(): Iterable<Sequence> {
    for (let i = this.items.length - 1; i >= 0; i--) yield this.items[i]!;
  }

  some(predicate: (sequence: Sequence) => boolean): boolean {
    return this.items.some(predicate);
  }

  filter(predicate: (sequence: Sequence) => boolean): Sequence[] {
    return this.items.filter(predicate);
  }

  [Symbol.iterator](): Iterator<Sequence> {
    return this.items.slice()[Symbol.iterator]();
  }
}
