import { assert } from '@stet/backend';
import type { Sequence } from './sequence.js';

/** Who is served first: higher priority, earlier arrival, deterministic before ordinary, order of arrival. */
export function serviceOrder(a: Sequence, b: Sequence): number {
  if (a.request.priority !== b.request.priority) return b.request.priority - a.request.priority;
  if (a.arrivedMs !== b.arrivedMs) return a.arrivedMs - b.arrivedMs;
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
