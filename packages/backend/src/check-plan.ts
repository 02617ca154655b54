import { StetError } from './errors.js';
import {
  type BufferId,
  type Op,
  type Plan,
  type RopeSpec,
  type WeightId,
  type WeightSpec,
  weightFormats,
} from './plan.js';

/** Columns of a matrix up to which all sums of the numerics are exact. */
const MAX_COLUMNS = 32768;
/** Angles below this are reduced exactly when rope tables are made. */
const MAX_ANGLE = 2 ** 20;
/** Least fl(width·epsilon) of rmsNorm, of a group's width where there are groups. */
const MIN_SCALED_EPSILON = 2 ** -60;

/** Throws `STET_ERR_BAD_PLAN` unless shapes, indices, the domain of constants and the order of operations fit together. */
export function checkPlan(plan: Plan): void {
  positive('vocabSize', plan.vocabSize);
  positive('contextLength', plan.contextLength);
  positive('layerCount', plan.layerCount);
  positive('kvHeadCount', plan.kvHeadCount);
  positive('headSize', plan.headSize);
  if (plan.headSize % 2 !== 0) bad(`headSize ${plan.headSize} is odd`);
  for (const buffer of plan.buffers) positive(`width of buffer ${buffer.name}`, buffer.width);
  for (const rope of plan.ropes) checkRope(plan, rope);
  for (const spec of plan.weights) checkWeight(spec);
  const written: Written = { buffers: new Set(), layers: new Set() };
  for (const [index, op] of plan.ops.entries()) {
    checkOp(op, new OpShapes(plan, `op ${index} (${op.kind})`, written), written);
  }
  const logitsAt = plan.ops.findIndex((op) => op.kind === 'logits');
  if (logitsAt === -1 || logitsAt !== plan.ops.length - 1) bad('logits is not the one last op');
}

function checkRope(plan: Plan, rope: RopeSpec): void {
  if (rope.inverseFrequencies.length !== plan.headSize / 2) {
    bad(`a rope has ${rope.inverseFrequencies.length} frequencies, expected headSize / 2 = ${plan.headSize / 2}`);
  }
  for (const frequency of rope.inverseFrequencies) {
    if (!(Math.abs(frequency) * plan.contextLength < MAX_ANGLE)) {
      bad(`a rope has the frequency ${frequency}, whose angles pass 2^20 within the context`);
    }
  }
  if (!(rope.attentionFactor > 0 && rope.attentionFactor <= 1024)) {
    bad(`a rope has the attention factor ${rope.attentionFactor}, expected more than 0 and at most 1024`);
  }
}

function checkWeight(spec: WeightSpec): void {
  switch (spec.kind) {
    case 'matrix':
      positive(`rows of ${spec.name}`, spec.rows);
      positive(`columns of ${spec.name}`, spec.columns);
      if (spec.columns > MAX_COLUMNS) bad(`${spec.name} has ${spec.columns} columns, at most ${MAX_COLUMNS} are exact`);
      if (!weightFormats.includes(spec.format)) bad(`${spec.name} has the unknown format ${spec.format}`);
      return;
    case 'vector':
      positive(`size of ${spec.name}`, spec.size);
      if (spec.role !== 'norm' && spec.role !== 'bias') bad(`${spec.name} has the unknown role ${spec.role}`);
      return;
    default:
      bad(`a weight has the unknown kind ${JSON.stringify((spec as { kind: unknown }).kind)}`);
  }
}

/** What the ops before the one under check have written. */
interface Written {
  readonly buffers: Set<BufferId>;
  readonly layers: Set<number>;
}

function checkOp(op: Op, shapes: OpShapes, written: Written): void {
  switch (op.kind) {
    case 'embed':
      shapes.matrix(op.table, shapes.plan.vocabSize, shapes.write(op.output));
      return;
    case 'rmsNorm':
      shapes.norm(op.weight, op.epsilon, shapes.group(op.groupCount, shapes.read(op.input)));
      shapes.same('output width', shapes.write(op.output), shapes.width(op.input));
      return;
    case 'linear':
      if (op.output === op.input) shapes.bad('writes its own input');
      shapes.matrix(op.weight, shapes.width(op.output), shapes.read(op.input));
      shapes.bias(op.bias, shapes.write(op.output));
      return;
    case 'rope':
      shapes.heads('buffer', op.headCount, shapes.read(op.buffer));
      if (!shapes.plan.ropes[op.rope]) shapes.bad(`names rope ${op.rope}, which does not exist`);
      return;
    case 'kvWrite':
      shapes.layer(op.layer);
      if (written.layers.has(op.layer)) shapes.bad(`writes layer ${op.layer} a second time`);
      shapes.heads('key', shapes.plan.kvHeadCount, shapes.read(op.key));
      shapes.heads('value', shapes.plan.kvHeadCount, shapes.read(op.value));
      written.layers.add(op.layer);
      return;
    case 'attention':
      shapes.layer(op.layer);
      if (!written.layers.has(op.layer)) shapes.bad(`reads layer ${op.layer} before a kvWrite filled it`);
      if (op.output === op.query) shapes.bad('writes its own input');
      shapes.heads('query', op.headCount, shapes.read(op.query));
      shapes.heads('output', op.headCount, shapes.write(op.output));
      if (op.headCount % shapes.plan.kvHeadCount !== 0) {
        shapes.bad(`has ${op.headCount} heads, which do not share ${shapes.plan.kvHeadCount} K/V heads evenly`);
      }
      shapes.count('windowSize', op.windowSize ?? 1);
      return;
    case 'swiglu':
      shapes.same('up width', shapes.read(op.up), shapes.read(op.gate));
      shapes.same('output width', shapes.write(op.output), shapes.width(op.gate));
      return;
    case 'add':
      shapes.same('right width', shapes.read(op.right), shapes.read(op.left));
      shapes.same('output width', shapes.write(op.output), shapes.width(op.left));
      return;
    case 'logits':
      shapes.norm(op.norm, op.epsilon, shapes.read(op.input));
      shapes.matrix(op.weight, shapes.plan.vocabSize, shapes.width(op.input));
      shapes.bias(op.bias, shapes.plan.vocabSize);
      return;
    default:
      shapes.bad(`is of the unknown kind ${JSON.stringify((op as { kind: unknown }).kind)}`);
  }
}

/** The checks of one op's operands; every message begins with `at`. */
class OpShapes {
  readonly plan: Plan;
  readonly #at: string;
  readonly #written: Written;

  constructor(plan: Plan, at: string, written: Written) {
    this.plan = plan;
    this.#at = at;
    this.#written = written;
  }

  bad(message: string): never {
    bad(`${this.#at} ${message}`);
  }

  same(what: string, got: number, want: number): void {
    if (got !== want) this.bad(`has ${what} ${got}, expected ${want}`);
  }

  width(id: BufferId): number {
    const buffer = this.plan.buffers[id];
    if (!buffer) this.bad(`names buffer ${id}, which does not exist`);
    return buffer.width;
  }

  /** Width of a buffer that an earlier op wrote. */
  read(id: BufferId): number {
    const width = this.width(id);
    if (!this.#written.buffers.has(id))
      this.bad(`reads buffer ${this.plan.buffers[id]!.name} before anything wrote it`);
    return width;
  }

  /** Width of a buffer, which counts as written from now on. */
  write(id: BufferId): number {
    const width = this.width(id);
    this.#written.buffers.add(id);
    return width;
  }

  matrix(id: WeightId, rows: number, columns: number): void {
    const spec = this.plan.weights[id];
    if (spec?.kind !== 'matrix') this.bad(`names weight ${id}, which is not a matrix`);
    this.same(`rows of ${spec.name}`, spec.rows, rows);
    this.same(`columns of ${spec.name}`, spec.columns, columns);
  }

  norm(id: WeightId, epsilon: number, size: number): void {
    this.#vector(id, size, 'norm');
    const scaled = Math.fround(size * epsilon);
    if (!(epsilon <= 1 && scaled >= MIN_SCALED_EPSILON))
      this.bad(`has epsilon ${epsilon}, outside 2^-60 / ${size} .. 1`);
  }

  bias(id: WeightId | undefined, size: number): void {
    if (id !== undefined) this.#vector(id, size, 'bias');
  }

  /** Width of each of `groupCount` equal parts of a row; all of it by default. */
  group(groupCount: number | undefined, width: number): number {
    if (groupCount === undefined) return width;
    this.count('groupCount', groupCount);
    if (width % groupCount !== 0) this.bad(`has ${groupCount} groups, which do not divide a width of ${width}`);
    return width / groupCount;
  }

  count(what: string, value: number): void {
    positive(`${this.#at}: ${what}`, value);
  }

  heads(what: string, headCount: number, width: number): void {
    this.count('headCount', headCount);
    this.same(`${what} width`, width, headCount * this.plan.headSize);
  }

  layer(layer: number): void {
    if (!Number.isInteger(layer) || layer < 0 || layer >= this.plan.layerCount) {
      this.bad(`names layer ${layer}, which does not exist`);
    }
  }

  #vector(id: WeightId, size: number, role: 'norm' | 'bias'): void {
    const spec = this.plan.weights[id];
    if (spec?.kind !== 'vector' || spec.role !== role) this.bad(`names weight ${id}, which is not a ${role}`);
    this.same(`size of ${spec.name}`, spec.size, size);
  }
}

function positive(what: string, value: number): void {
  if (!Number.isInteger(value) || value < 1) bad(`${what} is ${value}, expected a positive integer`);
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_PLAN', message);
}
