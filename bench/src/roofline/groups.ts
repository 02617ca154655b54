import { assert, type Op, type Plan, type WeightSpec } from '@stet/backend';

export type MatrixSpec = WeightSpec & { readonly kind: 'matrix' };

/** Linears of a plan that have one input, as in every layer: `q_proj, k_proj, v_proj`. */
export interface LinearGroup {
  readonly name: string;
  readonly columns: number;
  /** One for each linear. */
  readonly rows: readonly number[];
  /** Times in the plan. */
  readonly count: number;
}

/**
 * The linears of a plan as its layers have them: neighbours that read the same input are one group, equal groups of all layers are counted.
 * The head of the logits is the last group.
 */
export function linearGroups(plan: Plan): LinearGroup[] {
  const groups = new Map<string, LinearGroup>();
  const add = (specs: readonly MatrixSpec[]): void => {
    const name = specs.map((spec) => moduleName(spec.name)).join(', ');
    const rows = specs.map((spec) => spec.rows);
    const { columns } = specs[0]!;
    const key = `${name} ${columns} ${rows}`;
    groups.set(key, { name, columns, rows, count: (groups.get(key)?.count ?? 0) + 1 });
  };
  let open: { readonly input: number; readonly specs: MatrixSpec[] } | undefined;
  const close = (): void => {
    if (open) add(open.specs);
    open = undefined;
  };
  for (const op of plan.ops) {
    if (op.kind === 'linear') {
      if (open?.input !== op.input) close();
      open ??= { input: op.input, specs: [] };
      open.specs.push(matrixOf(plan, op.weight));
    } else if (op.kind === 'logits') {
      close();
      add([{ ...matrixOf(plan, op.weight), name: 'head' }]);
    } else if (writes(op) === open?.input) close();
  }
  return [...groups.values()];
}

/** The buffer that an operation overwrites, if it does. */
function writes(op: Exclude<Op, { kind: 'logits' | 'linear' }>): number | undefined {
  switch (op.kind) {
    case 'rope':
      return op.buffer;
    case 'kvWrite':
      return undefined;
    default:
      return op.output;
  }
}

function matrixOf(plan: Plan, id: number): MatrixSpec {
  const spec = plan.weights[id];
  assert(spec?.kind === 'matrix', `weight ${id} is a matrix`);
  return spec;
}

/** `model.layers.7.self_attn.q_proj.weight` → `q_proj` */
function moduleName(weight: string): string {
  return weight.split('.').at(-2) ?? weight;
}
