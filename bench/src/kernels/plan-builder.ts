import type { BufferId, BufferSpec, Op, Plan, WeightFormat, WeightId, WeightSpec } from '@stet/backend';

/** Tokens of a probe that measures neither embedding nor head. */
export const PROBE_VOCAB = 32;
const END_WIDTH = 32;

/** Puts a plan together that has the shape of a model's heads, and next to no embedding and head. */
export class PlanBuilder {
  readonly #model: Plan;
  readonly #vocabSize: number;
  readonly #buffers: BufferSpec[] = [];
  readonly #weights: WeightSpec[] = [];
  readonly #ops: Op[] = [];
  /** By the buffer that it fills. */
  readonly #tables = new Map<BufferId, WeightId>();
  #layerCount = 1;

  constructor(model: Plan, vocabSize = PROBE_VOCAB) {
    this.#model = model;
    this.#vocabSize = vocabSize;
  }

  buffer(width: number): BufferId {
    return this.#buffers.push({ name: `buffer ${this.#buffers.length}`, width }) - 1;
  }

  /** A buffer with something in it. */
  input(width: number): BufferId {
    const id = this.buffer(width);
    this.#tables.set(id, this.matrix(this.#vocabSize, width, 'bf16'));
    this.fill(id);
    return id;
  }

  /** Fills an input once more, so that whoever reads it has to wait and to prepare it again. */
  fill(id: BufferId): void {
    const table = this.#tables.get(id);
    if (table === undefined) throw new Error(`buffer ${id} is no input`);
    this.add({ kind: 'embed', table, output: id });
  }

  matrix(rows: number, columns: number, format: WeightFormat): WeightId {
    return this.#weight({ kind: 'matrix', name: `matrix ${this.#weights.length}`, rows, columns, format });
  }

  norm(size: number): WeightId {
    return this.#weight({ kind: 'vector', name: `norm ${this.#weights.length}`, size, role: 'norm' });
  }

  /** A layer that keeps K/V; the first one is there. */
  layer(): number {
    return this.#layerCount++;
  }

  add(op: Op): void {
    this.#ops.push(op);
  }

  /** With arg-maxes over a few tokens at its end. */
  finish(): Plan {
    const input = this.input(END_WIDTH);
    return this.finishWith({ input, width: END_WIDTH, weight: this.#tables.get(input)! });
  }

  finishWith({ input, width, weight }: { input: BufferId; width: number; weight: WeightId }): Plan {
    this.add({ kind: 'logits', input, norm: this.norm(width), epsilon: 1e-5, weight });
    const { architecture, contextLength, kvHeadCount, headSize, ropes } = this.#model;
    return {
      ...{ architecture, contextLength, kvHeadCount, headSize, ropes },
      vocabSize: this.#vocabSize,
      layerCount: this.#layerCount,
      buffers: this.#buffers,
      weights: this.#weights,
      ops: this.#ops,
    };
  }

  #weight(spec: WeightSpec): WeightId {
    return this.#weights.push(spec) - 1;
  }
}
