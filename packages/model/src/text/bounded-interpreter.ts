import { Interpreter } from '@huggingface/jinja';

type Node = Parameters<Interpreter['evaluate']>[0];
type Value = ReturnType<Interpreter['evaluate']>;
type AnyNode = Readonly<Record<string, unknown>> & { readonly type: string };

/** Most work of one rendering: a step for each node evaluated, each element of a list made, some characters; more for an iteration. */
export const MAX_STEPS = 2_000_000;
/** Characters of a new string that count as a step. */
const CHARACTERS_PER_STEP = 256;
/** An iteration builds a scope and the `loop` object, whatever its body does. */
const STEPS_PER_ITERATION = 16;

/**
 * Templates come with models, so they are not trusted. Jinja has no endless loop, but loops in loops, macros that call
 * each other, and lists or strings that double are as good as one: all of it counts, and a rendering that passes
 * {@link MAX_STEPS} fails. What one filter does inside is bounded by the size of its input, which was paid for.
 */
export class BoundedInterpreter extends Interpreter {
  #steps = 0;
  /** What loops walk over: walking counts, even where the body is empty. */
  readonly #walked = new WeakSet<object>();
  /** What is stored in a namespace. */
  readonly #stored = new WeakSet<object>();
  readonly #sizes = new WeakMap<Value, number>();

  override evaluate(statement: Node, environment: Parameters<Interpreter['evaluate']>[1]): Value {
    this.#spend(1);
    const node = statement as unknown as AnyNode | undefined;
    if (node) this.#watchOperands(node);
    const value = super.evaluate(statement, environment);
    if (!node) return value;
    if (this.#stored.has(node) && value.type === 'NamespaceValue') throw new Error('a namespace may not hold another');
    if (makesValue(node)) this.#spend(this.#sizeOf(value));
    if (this.#walked.has(node)) this.#spend(STEPS_PER_ITERATION * countOf(value));
    return value;
  }

  #watchOperands(node: AnyNode): void {
    if (node.type === 'For') {
      const iterable = node.iterable as AnyNode;
      this.#walked.add(iterable.type === 'SelectExpression' ? (iterable.lhs as AnyNode) : iterable);
    }
    if (node.type === 'Set' && (node.assignee as AnyNode).type === 'MemberExpression' && node.value) {
      this.#stored.add(node.value as AnyNode);
    }
  }

  #spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps > MAX_STEPS) throw new Error(`it took more than ${MAX_STEPS} steps`);
  }

  /**
   * Elements of a value with all that it holds. A list that holds another twice counts it twice, as writing it out
   * would. Lists and objects never change once they are made, so each is measured once; namespaces do change.
   */
  #sizeOf(value: Value): number {
    if (value.type === 'StringValue') return (value.value as string).length / CHARACTERS_PER_STEP;
    const known = this.#sizes.get(value);
    if (known !== undefined) return known;
    const inner: unknown = value.value;
    const children = (Array.isArray(inner) ? inner : inner instanceof Map ? [...inner.values()] : []) as Value[];
    let size = children.length;
    for (const child of children) {
      if (child.type === 'NamespaceValue')
        throw new Error('a namespace may not be held by a list, an object or another namespace');
      size += this.#sizeOf(child);
    }
    if (value.type !== 'NamespaceValue') this.#sizes.set(value, size);
    return size;
  }
}

function countOf(value: Value): number {
  const inner: unknown = value.value;
  if (Array.isArray(inner)) return inner.length;
  return inner instanceof Map ? inner.size : 0;
}

/** Whether a node makes a new value; the others hand on one that was paid for when it was made. */
function makesValue(node: AnyNode): boolean {
  if (node.type === 'Identifier') return false;
  return node.type !== 'MemberExpression' || (node.property as AnyNode).type === 'SliceExpression';
}
