import { Interpreter } from '@huggingface/jinja';

type Node = Parameters<Interpreter['evaluate']>[0];
type Value = ReturnType<Interpreter['evaluate']>;
type AnyNode = Readonly<Record<string, unknown>> & { readonly type: string };

/** Most work of one rendering: a step for each node evaluated, each element of a list made, some characters; more for an iteration. */
export const MAX_STEPS = 1_000_000;
/** Characters of a new string that count as a step. */
const CHARACTERS_PER_STEP = 256;
/** An iteration builds a scope and the `loop` object, whatever its body does; a call of a macro builds a scope. */
const STEPS_PER_SCOPE = 16;
/** Filters and methods do more for each element or character than making it: they compare, or look into it. */
const FILTERED_COST = 16;
/** `title` calls back for every word. */
const TITLE_COST = 128;
/** Searching and replacing take up to the product of their operands' lengths; so much of it counts as a step. */
const PRODUCT_PER_STEP = 1024;

/**
 * Templates come with models, so they are not trusted. Jinja has no endless loop, but loops in loops, macros that call
 * each other, and lists or strings that double are as good as one: all of it counts, and a rendering that passes
 * {@link MAX_STEPS} fails. What an operation does inside is bounded by its operands, which are paid for before it runs:
 * each string that an expression gives by its length, and for filters, methods and `in` the product of them all.
 */
export class BoundedInterpreter extends Interpreter {
  #steps = 0;
  /** What loops walk over: walking counts, even where the body is empty. */
  readonly #walked = new WeakSet<object>();
  /** What is stored in a namespace. */
  readonly #stored = new WeakSet<object>();
  readonly #sizes = new WeakMap<Value, number>();
  /** What the operands of an operation, so far, multiply to; by operand. */
  readonly #products = new WeakMap<object, { product: number }>();

  override evaluate(statement: Node, environment: Parameters<Interpreter['evaluate']>[1]): Value {
    const node = statement as unknown as AnyNode | undefined;
    this.#spend(node?.type === 'CallExpression' ? STEPS_PER_SCOPE : 1);
    if (node) this.#watchOperands(node);
    const value = super.evaluate(statement, environment);
    if (!node) return value;
    if (this.#stored.has(node) && value.type === 'NamespaceValue') throw new Error('a namespace may not hold another');
    if (value.type === 'StringValue' || makesValue(node)) this.#spend(this.#sizeOf(value) * operationCost(node));
    this.#multiply(node, value);
    if (this.#walked.has(node)) this.#spend(STEPS_PER_SCOPE * countOf(value));
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
    const operands = operandsOf(node);
    if (operands.length < 2) return;
    const shared = { product: 1 };
    for (const operand of operands) this.#products.set(operand, shared);
  }

  #multiply(operand: AnyNode, value: Value): void {
    const shared = this.#products.get(operand);
    if (!shared) return;
    shared.product *= Math.max(1, extentOf(value));
    this.#spend(shared.product / PRODUCT_PER_STEP);
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

/** A filter, or a method of a value: what the library computes itself. A macro's body is counted as it runs. */
function isOperation(node: AnyNode): boolean {
  if (node.type === 'FilterExpression' || node.type === 'FilterStatement') return true;
  return node.type === 'CallExpression' && (node.callee as AnyNode).type === 'MemberExpression';
}

function operationCost(node: AnyNode): number {
  if (!isOperation(node)) return 1;
  const named = (node.type === 'CallExpression' ? (node.callee as AnyNode).property : node.filter) as AnyNode;
  return named.value === 'title' ? TITLE_COST : FILTERED_COST;
}

/** The operands that what an operation costs is the product of. */
function operandsOf(node: AnyNode): AnyNode[] {
  if (node.type === 'BinaryExpression') {
    const operator = (node.operator as { value: string }).value;
    return operator === 'in' || operator === 'not in' ? [node.left as AnyNode, node.right as AnyNode] : [];
  }
  if (!isOperation(node)) return [];
  const call = node.type === 'CallExpression' ? node : (node.filter as AnyNode);
  const args = ((call.args ?? []) as AnyNode[]).map((argument) =>
    argument.type === 'KeywordArgumentExpression' ? (argument.value as AnyNode) : argument,
  );
  const operand = node.type === 'CallExpression' ? (node.callee as AnyNode).object : node.operand;
  return operand ? [operand as AnyNode, ...args] : args;
}

/** Characters, elements by what comparing one costs, or a number as it is: the width of an indent. */
function extentOf(value: Value): number {
  const inner: unknown = value.value;
  if (typeof inner === 'string') return inner.length;
  return typeof inner === 'number' ? Math.abs(inner) : FILTERED_COST * countOf(value);
}

/** Whether a node makes a new value; the others hand on one that was paid for when it was made. */
function makesValue(node: AnyNode): boolean {
  if (node.type === 'Identifier') return false;
  return node.type !== 'MemberExpression' || (node.property as AnyNode).type === 'SliceExpression';
}
