import type { BufferId, Op } from '@stet/backend';
import { fastAttentionCalls } from '../kernels/attention-fast.js';
import {
  areAlike,
  type FastLinear,
  type FastLinearResult,
  FastLinears,
  type FastNorm,
} from '../kernels/linear-fast.js';
import type { PlanCalls } from './compile-plan.js';
import type { DeviceModel } from './device-model.js';
import type { KernelCall } from './kernel-call.js';
import { matrixOf, vectorOf } from './operands.js';
import { type RowOp, type RowOpKernels, readsOf, rowOpCalls, writeOf } from './row-op-calls.js';
import { logitsOp, type ProgramScratch } from './scratch.js';

/**
 * The calls of a plan in the fast schedule. Norms are fused to the linears that read them, linears to the residual add or the
 * swiglu that reads them, and linears that are alike run two at a time.
 *
 * A norm or a linear is not called at its place but *deferred*, until an op reads what it writes. That op fuses it or has it
 * called first. It can be called at any time as long as nothing has written what it reads, so before that happens it is called,
 * or dropped if its result is not read any more.
 */
export function fastCalls(model: DeviceModel, scratch: ProgramScratch): PlanCalls {
  const linears = new FastLinears();
  const compiler = new FastCompiler(model, scratch, linears);
  for (let i = 0; i < model.plan.ops.length - 1; i++) compiler.add(i);
  return { rows: compiler.finish(), outputs: headCalls(model, scratch, linears) };
}

function headCalls(model: DeviceModel, { logits }: ProgramScratch, linears: FastLinears): KernelCall[] {
  const { input, norm, epsilon, weight, bias } = logitsOp(model.plan);
  return linears.calls({
    weight: matrixOf(model, weight),
    input: model.buffers[input]!,
    norm: { weight: vectorOf(model, norm), epsilon },
    ...(bias !== undefined && { bias: vectorOf(model, bias) }),
    output: logits,
    inputRow: 'outputs',
  });
}

type LinearOp = Op & { readonly kind: 'linear' };
type NormOp = Op & { readonly kind: 'rmsNorm' };
type AddOp = Op & { readonly kind: 'add' };
type SwigluOp = Op & { readonly kind: 'swiglu' };

const kernels: RowOpKernels = { attention: fastAttentionCalls };

/** What is to be written to a buffer. `reads` holds it already when the op is deferred. */
type Deferred = { readonly op: NormOp; readonly reads: BufferId } | DeferredLinear;
interface DeferredLinear {
  readonly op: LinearOp;
  readonly reads: BufferId;
  readonly norm: NormOp | undefined;
}

class FastCompiler {
  readonly #model: DeviceModel;
  readonly #scratch: ProgramScratch;
  readonly #linears: FastLinears;
  readonly #calls: KernelCall[] = [];
  /** By the buffer that it writes. */
  readonly #deferred = new Map<BufferId, Deferred>();

  constructor(model: DeviceModel, scratch: ProgramScratch, linears: FastLinears) {
    this.#model = model;
    this.#scratch = scratch;
    this.#linears = linears;
  }

  /** Adds the op of an index; in order. */
  add(index: number): void {
    const op = this.#model.plan.ops[index]!;
    switch (op.kind) {
      case 'rmsNorm':
        if (op.output === op.input || (op.groupCount ?? 1) > 1) this.#addRowOp(op, index);
        else this.#addNorm(op, index);
        return;
      case 'linear':
        this.#addLinear(op, index);
        return;
      case 'add':
        if (!this.#fuseAdd(op, index)) this.#addRowOp(op, index);
        return;
      case 'swiglu':
        if (!this.#fuseSwiglu(op, index)) this.#addRowOp(op, index);
        return;
      case 'logits':
        throw new Error('assertion failed: logits is not among the ops of rows');
      default:
        this.#addRowOp(op, index);
    }
  }

  /** All calls; whatever the logits op does not read is left out. */
  finish(): readonly KernelCall[] {
    this.#settle(logitsOp(this.#model.plan).input);
    return this.#calls;
  }

  #addRowOp(op: RowOp, index: number): void {
    for (const buffer of readsOf(op)) this.#settle(buffer);
    const written = writeOf(op);
    if (written !== undefined) this.#beforeWrite(written, index);
    this.#calls.push(...rowOpCalls(this.#model, this.#scratch, op, kernels));
  }

  #addNorm(op: NormOp, index: number): void {
    this.#settle(op.input);
    this.#beforeWrite(op.output, index);
    this.#deferred.set(op.output, { op, reads: op.input });
  }

  #addLinear(op: LinearOp, index: number): void {
    const input = this.#deferred.get(op.input);
    // A norm of the buffer that the linear writes would be read and written at once.
    const norm = input?.op.kind === 'rmsNorm' && input.reads !== op.output ? input.op : undefined;
    if (!norm) this.#settle(op.input);
    this.#beforeWrite(op.output, index);
    this.#deferred.set(op.output, { op, norm, reads: norm?.input ?? op.input });
  }

  /** hidden += linear, whichever side of the add it is. */
  #fuseAdd({ left, right, output }: AddOp, index: number): boolean {
    const other = output === left ? right : left;
    const linear = this.#deferredLinear(other);
    if (!linear || left === right || (output !== left && output !== right)) return false;
    if (linear.reads === output || this.#isRead(other, index + 1)) return false;
    this.#deferred.delete(other);
    this.#settle(output);
    this.#beforeWrite(output, index);
    this.#callLinear(linear, output, { kind: 'add' });
    return true;
  }

  #fuseSwiglu({ gate, up, output }: SwigluOp, index: number): boolean {
    const first = this.#deferredLinear(gate);
    const second = this.#deferredLinear(up);
    if (!first || !second || gate === up || !this.#arePair(first, second) || first.reads === output) return false;
    for (const buffer of [gate, up]) if (buffer !== output && this.#isRead(buffer, index + 1)) return false;
    this.#deferred.delete(gate);
    this.#deferred.delete(up);
    this.#beforeWrite(output, index);
    this.#callLinear(first, output, { kind: 'swiglu', up: matrixOf(this.#model, second.op.weight) });
    return true;
  }

  /** Calls what is to be written to a buffer that an op reads. */
  #settle(buffer: BufferId): void {
    const deferred = this.#deferred.get(buffer);
    if (!deferred) return;
    this.#deferred.delete(buffer);
    const { op } = deferred;
    if (op.kind === 'rmsNorm') {
      this.#calls.push(...rowOpCalls(this.#model, this.#scratch, op, kernels));
      return;
    }
    const linear = deferred as DeferredLinear;
    for (const other of this.#deferred.values()) {
      if (!isLinear(other) || !this.#arePair(linear, other)) continue;
      const { weight, output } = other.op;
      this.#deferred.delete(output);
      const second = { weight: matrixOf(this.#model, weight), output: this.#model.buffers[output]! };
      this.#callLinear(linear, buffer, { kind: 'two', ...second });
      return;
    }
    this.#callLinear(linear, buffer, { kind: 'store' });
  }

  /** Before the op of an index writes a buffer: what reads it, and is read later, is called; nothing is to be written to it any more. */
  #beforeWrite(buffer: BufferId, index: number): void {
    this.#deferred.delete(buffer);
    for (const [output, { reads }] of [...this.#deferred]) {
      if (reads !== buffer) continue;
      if (this.#isRead(output, index + 1)) this.#settle(output);
      else this.#deferred.delete(output);
    }
  }

  /** Whether an op from an index on reads what a buffer holds there. */
  #isRead(buffer: BufferId, from: number): boolean {
    const { ops } = this.#model.plan;
    for (let i = from; i < ops.length; i++) {
      if (readsOf(ops[i]!).includes(buffer)) return true;
      if (writeOf(ops[i]!) === buffer) return false;
    }
    return false;
  }

  #deferredLinear(buffer: BufferId): DeferredLinear | undefined {
    const deferred = this.#deferred.get(buffer);
    return deferred && isLinear(deferred) ? deferred : undefined;
  }

  /** Whether two linears can be one call: of the same rows, with matrices that are alike and no bias. */
  #arePair(a: DeferredLinear, b: DeferredLinear): boolean {
    const sameInput = a.reads === b.reads && a.norm === b.norm;
    const withoutBias = a.op.bias === undefined && b.op.bias === undefined;
    return sameInput && withoutBias && areAlike(matrixOf(this.#model, a.op.weight), matrixOf(this.#model, b.op.weight));
  }

  #callLinear({ op, norm, reads }: DeferredLinear, output: BufferId, result: FastLinearResult): void {
    const linear: FastLinear = {
      weight: matrixOf(this.#model, op.weight),
      input: this.#model.buffers[reads]!,
      ...(norm && { norm: this.#normOf(norm) }),
      ...(op.bias !== undefined && { bias: vectorOf(this.#model, op.bias) }),
      output: this.#model.buffers[output]!,
      result,
    };
    this.#calls.push(...this.#linears.calls(linear));
  }

  #normOf({ weight, epsilon }: NormOp): FastNorm {
    return { weight: vectorOf(this.#model, weight), epsilon };
  }
}

function isLinear(deferred: Deferred): deferred is DeferredLinear {
  return deferred.op.kind === 'linear';
}
