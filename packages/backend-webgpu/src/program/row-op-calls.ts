import { assertNever, type BufferId, type Op } from '@stet/backend';
import { add } from '../kernels/add.js';
import { attentionCalls } from '../kernels/attention.js';
import { embedCalls } from '../kernels/embed.js';
import { kvWrite } from '../kernels/kv-write.js';
import { rmsNorm } from '../kernels/rms-norm.js';
import { rope } from '../kernels/rope.js';
import { swiglu } from '../kernels/swiglu.js';
import type { DeviceModel } from './device-model.js';
import type { KernelCall } from './kernel-call.js';
import { matrixOf, vectorOf } from './operands.js';
import type { ProgramScratch } from './scratch.js';

/** Every op but the linears, which both schedules run alike where they do not fuse it to another. */
export type RowOp = Exclude<Op, { readonly kind: 'linear' | 'logits' }>;

/** What a schedule has kernels of its own for. */
export interface RowOpKernels {
  readonly attention: typeof attentionCalls;
}

export const canonicalKernels: RowOpKernels = { attention: attentionCalls };

/** The calls of one op by itself. */
export function rowOpCalls(
  model: DeviceModel,
  scratch: ProgramScratch,
  op: RowOp,
  kernels: RowOpKernels = canonicalKernels,
): KernelCall[] {
  const buffer = (id: BufferId): GPUBuffer => model.buffers[id]!;
  const width = (id: BufferId): number => model.plan.buffers[id]!.width;
  const { kv, kvLayout: layout } = model;
  switch (op.kind) {
    case 'embed':
      return embedCalls({ table: matrixOf(model, op.table), output: buffer(op.output) });
    case 'rmsNorm': {
      const { groupCount, epsilon } = op;
      const weight = vectorOf(model, op.weight);
      const operands = { input: buffer(op.input), weight, output: buffer(op.output), width: width(op.input), epsilon };
      return [rmsNorm({ ...operands, ...(groupCount && { groupCount }) })];
    }
    case 'rope': {
      const { headSize } = model.plan;
      return [rope({ buffer: buffer(op.buffer), turns: model.ropes[op.rope]!, headCount: op.headCount, headSize })];
    }
    case 'kvWrite':
      return [kvWrite({ key: buffer(op.key), value: buffer(op.value), kv: kv[op.layer]!, layout })];
    case 'attention': {
      const { headCount, windowSize } = op;
      const rows = { query: buffer(op.query), output: buffer(op.output), partials: scratch.attentionPartials };
      return kernels.attention({ ...rows, kv: kv[op.layer]!, layout, headCount, windowSize });
    }
    case 'swiglu': {
      const [gate, up, output] = [buffer(op.gate), buffer(op.up), buffer(op.output)];
      return [swiglu({ gate, up, output, width: width(op.gate) })];
    }
    case 'add': {
      const [left, right, output] = [buffer(op.left), buffer(op.right), buffer(op.output)];
      return [add({ left, right, output, width: width(op.left) })];
    }
    default:
      return assertNever(op);
  }
}

export function readsOf(op: Op): BufferId[] {
  switch (op.kind) {
    case 'embed':
      return [];
    case 'rmsNorm':
    case 'linear':
    case 'logits':
      return [op.input];
    case 'rope':
      return [op.buffer];
    case 'kvWrite':
      return [op.key, op.value];
    case 'attention':
      return [op.query];
    case 'swiglu':
      return [op.gate, op.up];
    case 'add':
      return [op.left, op.right];
    default:
      return assertNever(op);
  }
}

/** The buffer whose rows an op writes, all of them. */
export function writeOf(op: Op): BufferId | undefined {
  switch (op.kind) {
    case 'embed':
    case 'rmsNorm':
    case 'linear':
    case 'attention':
    case 'swiglu':
    case 'add':
      return op.output;
    case 'rope':
      return op.buffer;
    case 'kvWrite':
    case 'logits':
      return undefined;
    default:
      return assertNever(op);
  }
}
