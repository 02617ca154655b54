import {
  assert,
  type BufferId,
  type BufferSpec,
  checkPlan,
  type Op,
  type Plan,
  type RopeId,
  type RopeSpec,
  type WeightFormat,
  type WeightId,
  type WeightSpec,
} from '@stet/backend';

/** Collects buffers, weights and ops; a weight that is asked for twice (a tied head) is listed once. */
export class PlanBuilder {
  readonly #buffers: BufferSpec[] = [];
  readonly #weights: WeightSpec[] = [];
  readonly #weightIds = new Map<string, WeightId>();
  readonly #ropes: RopeSpec[] = [];
  readonly #ops: Op[] = [];
  readonly #formatOf: (matrix: string) => WeightFormat;

  /** `formatOf` gives the format of each matrix by its name. */
  constructor(formatOf: (matrix: string) => WeightFormat) {
    this.#formatOf = formatOf;
  }

  buffer(name: string, width: number): BufferId {
    this.#buffers.push({ name, width });
    return this.#buffers.length - 1;
  }

  rope(spec: RopeSpec): RopeId {
    this.#ropes.push(spec);
    return this.#ropes.length - 1;
  }

  matrix(name: string, rows: number, columns: number): WeightId {
    return this.#weight({ kind: 'matrix', name, rows, columns, format: this.#formatOf(name) });
  }

  vector(name: string, size: number, role: 'norm' | 'bias'): WeightId {
    return this.#weight({ kind: 'vector', name, size, role });
  }

  op(op: Op): void {
    this.#ops.push(op);
  }

  /** A norm of whole hidden states, with the weight of that name. */
  norm(
    name: string,
    { hiddenSize, normEpsilon }: { readonly hiddenSize: number; readonly normEpsilon: number },
    input: BufferId,
    output: BufferId,
  ): void {
    const weight = this.vector(name, hiddenSize, 'norm');
    this.op({ kind: 'rmsNorm', input, weight, epsilon: normEpsilon, output });
  }

  /** A linear with the weight `name.weight` and, where it has one, the bias `name.bias`. */
  linear(
    name: string,
    [rows, columns]: readonly [rows: number, columns: number],
    hasBias: boolean,
    input: BufferId,
    output: BufferId,
  ): void {
    const weight = this.matrix(`${name}.weight`, rows, columns);
    const bias = hasBias ? { bias: this.vector(`${name}.bias`, rows, 'bias') } : {};
    this.op({ kind: 'linear', input, weight, ...bias, output });
  }

  /** The checked plan. */
  build(shape: Omit<Plan, 'buffers' | 'weights' | 'ropes' | 'ops'>): Plan {
    const plan = { ...shape, buffers: this.#buffers, weights: this.#weights, ropes: this.#ropes, ops: this.#ops };
    checkPlan(plan);
    return plan;
  }

  #weight(spec: WeightSpec): WeightId {
    const known = this.#weightIds.get(spec.name);
    if (known !== undefined) {
      assert(JSON.stringify(this.#weights[known]) === JSON.stringify(spec), `${spec.name} is used in two shapes`);
      return known;
    }
    this.#weights.push(spec);
    this.#weightIds.set(spec.name, this.#weights.length - 1);
    return this.#weights.length - 1;
  }
}
