import { assert } from './assert.js';

/**
 * Where the K/V of a block came from. Only `canonical` blocks, whose bits depend on their tokens alone, may serve
 * deterministic sequences; any block may serve ordinary ones.
 */
export type Provenance = 'canonical' | 'fast';

/** A full block of tokens after a certain prefix, and the blocks that hold its K/V (0: none). */
export interface PrefixNode {
  readonly parent: PrefixNode | undefined;
  readonly hash: number;
  readonly tokens: Int32Array;
  /** By hash; most nodes have none. */
  children: Map<number, PrefixNode[]> | undefined;
  canonical: number;
  fast: number;
  attached: boolean;
}

/** Token blocks by prefix. Hashes only find candidates; tokens are compared, so no collision can lend another's K/V. */
export class PrefixTree {
  readonly #root: PrefixNode = node(undefined, 0, new Int32Array(0));

  /** Where the prefixes of a scope begin; undefined while there are none. */
  rootOf(scope: string | undefined): PrefixNode | undefined {
    return scope === undefined ? this.#root : this.find(this.#root, spell(scope));
  }

  addRoot(scope: string | undefined): PrefixNode {
    return scope === undefined ? this.#root : this.findOrAdd(this.#root, spell(scope));
  }

  find(parent: PrefixNode, tokens: Int32Array): PrefixNode | undefined {
    return parent.children?.get(hashTokens(tokens))?.find((child) => sameTokens(child.tokens, tokens));
  }

  findOrAdd(parent: PrefixNode, tokens: Int32Array): PrefixNode {
    assert(parent.attached, 'a node is added below one that left the tree');
    const found = this.find(parent, tokens);
    if (found) return found;
    const added = node(parent, hashTokens(tokens), tokens.slice());
    parent.children ??= new Map();
    const siblings = parent.children.get(added.hash);
    if (siblings) siblings.push(added);
    else parent.children.set(added.hash, [added]);
    return added;
  }

  /** Takes a node without blocks and children out of the tree, and then its parents likewise. */
  prune(from: PrefixNode): void {
    let current: PrefixNode | undefined = from;
    while (current?.parent && current.attached && current.canonical === 0 && current.fast === 0 && !current.children) {
      const parent: PrefixNode = current.parent;
      removeChild(parent, current);
      current.attached = false;
      current = parent;
    }
  }
}

function node(parent: PrefixNode | undefined, hash: number, tokens: Int32Array): PrefixNode {
  return { parent, hash, tokens, children: undefined, canonical: 0, fast: 0, attached: true };
}

function removeChild(parent: PrefixNode, child: PrefixNode): void {
  const { children } = parent;
  const siblings = children?.get(child.hash);
  assert(children && siblings, 'a node is not among the children of its parent');
  siblings.splice(siblings.indexOf(child), 1);
  if (siblings.length === 0) children.delete(child.hash);
  if (children.size === 0) parent.children = undefined;
}

/** A scope as a first block that no tokens spell: ids are never negative. */
function spell(scope: string): Int32Array {
  return Int32Array.from({ length: scope.length }, (_, i) => -1 - scope.charCodeAt(i));
}

function hashTokens(tokens: Int32Array): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < tokens.length; i++) hash = Math.imul(hash ^ tokens[i]!, 0x01000193) ^ (hash >>> 15);
  return hash;
}

function sameTokens(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
