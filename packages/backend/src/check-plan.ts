import { StetError } from './errors.js';
import type { BufferId, Op, Plan, WeightId } from './plan.js';

/** Throws `STET_ERR_BAD_PLAN` unless shapes, indices and the order of operations fit together. */
export function checkPlan(plan: Plan): void {
  positive('vocabSize', plan.vocabSize);
  positive('contextLength', plan.contextLength);
  positive('layerCount', plan.layerCount);
  positive('kvHeadCount', plan.kvHeadCount);
  positive('headSize', plan.headSize);
  if (plan.headSize % 2 !== 0) bad(`headSize ${plan.headSize} is odd`);
  for (const buffer of plan.buffers) positive(`width of buffer ${buffer.name}`, buffer.width);
  for (const rope of plan.ropes) {
    if (rope.inverseFrequencies.length !== plan.headSize / 2)
      bad('a rope has another number of frequencies than headSize / 2');
  }
  for (const spec of plan.weights) {
    if (spec.kind === 'matrix' && spec.columns > 32768)
      bad(`${spec.name} has ${spec.columns} columns, at most 32768 are exact`);
  }
  const written = new Set<BufferId>();
  plan.ops.forEach((op, index) => checkOp(plan, op, index, written));
  if (plan.ops.at(-1)?.kind !== 'logits') bad('the last op is not logits');
}

function checkOp(plan: Plan, op: Op, index: number, written: Set<BufferId>): void {
  const at = `op ${index} (${op.kind})`;
  const width = (id: BufferId): number => {
    const buffer = plan.buffers[id];
    if (!buffer) bad(`${at} names buffer ${id}, which does not exist`);
    return buffer.width;
  };
  const read = (id: BufferId): number => {
    const w = width(id);
    if (!written.has(id)) bad(`${at} reads buffer ${plan.buffers[id]!.name} before anything wrote it`);
    return w;
  };
  const same = (what: string, got: number, want: number): void => {
    if (got !== want) bad(`${at}: ${what} is ${got}, expected ${want}`);
  };
  const matrix = (id: WeightId, rows: number, columns: number): void => {
    const spec = plan.weights[id];
    if (spec?.kind !== 'matrix') bad(`${at} names weight ${id}, which is not a matrix`);
    same(`rows of ${spec.name}`, spec.rows, rows);
    same(`columns of ${spec.name}`, spec.columns, columns);
  };
  const vector = (id: WeightId | undefined, size: number, role: 'norm' | 'bias'): void => {
    if (id === undefined) return;
    const spec = plan.weights[id];
    if (spec?.kind !== 'vector' || spec.role !== role) bad(`${at} names weight ${id}, which is not a ${role}`);
    same(`size of ${spec.name}`, spec.size, size);
  };
  const layer = (value: number): void => {
    if (!Number.isInteger(value) || value < 0 || value >= plan.layerCount) bad(`${at}: layer ${value} does not exist`);
  };
  switch (op.kind) {
    case 'embed':
      matrix(op.table, plan.vocabSize, width(op.output));
      written.add(op.output);
      return;
    case 'rmsNorm':
      vector(op.weight, read(op.input), 'norm');
      same('output width', width(op.output), width(op.input));
      written.add(op.output);
      return;
    case 'linear':
      matrix(op.weight, width(op.output), read(op.input));
      vector(op.bias, width(op.output), 'bias');
      if (op.output === op.input) bad(`${at} writes its own input`);
      written.add(op.output);
      return;
    case 'rope':
      same('width', read(op.buffer), op.headCount * plan.headSize);
      if (!plan.ropes[op.rope]) bad(`${at} names rope ${op.rope}, which does not exist`);
      return;
    case 'kvWrite':
      layer(op.layer);
      same('key width', read(op.key), plan.kvHeadCount * plan.headSize);
      same('value width', read(op.value), plan.kvHeadCount * plan.headSize);
      return;
    case 'attention':
      layer(op.layer);
      same('query width', read(op.query), op.headCount * plan.headSize);
      same('output width', width(op.output), op.headCount * plan.headSize);
      if (op.headCount % plan.kvHeadCount !== 0)
        bad(`${at}: ${op.headCount} heads do not share ${plan.kvHeadCount} K/V heads`);
      written.add(op.output);
      return;
    case 'swiglu':
      same('up width', read(op.up), read(op.gate));
      same('output width', width(op.output), width(op.gate));
      written.add(op.output);
      return;
    case 'add':
      same('right width', read(op.right), read(op.left));
      same('output width', width(op.output), width(op.left));
      written.add(op.output);
      return;
    case 'logits':
      vector(op.norm, read(op.input), 'norm');
      matrix(op.weight, plan.vocabSize, width(op.input));
      vector(op.bias, plan.vocabSize, 'bias');
      if (index !== plan.ops.length - 1) bad(`${at} is not the last op`);
      return;
    default:
      bad(`op ${index} has the unknown kind ${JSON.stringify((op as { kind: unknown }).kind)}`);
  }
}

function positive(what: string, value: number): void {
  if (!Number.isInteger(value) || value < 1) bad(`${what} is ${value}, expected a positive integer`);
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_PLAN', message);
}
