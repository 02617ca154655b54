import { assertNever, type BufferId, type Op } from '@stet/backend';
import { add } from '../kernels/add.js';
import { attentionCalls } from '../kernels/attention.js';
import { embedCalls } from '../kernels/embed.js';
import { kvWrite } from '../kernels/kv-write.js';
import { linearCalls } from '../kernels/linear.js';
import { prepareQ15 } from '../kernels/prepare-q15.js';
import { rmsNorm } from '../kernels/rms-norm.js';
import { rope } from '../kernels/rope.js';
import { swiglu } from '../kernels/swiglu.js';
import type { PlanCalls } from './compile-plan.js';
import type { DeviceModel } from './device-model.js';
import type { KernelCall } from './kernel-call.js';
import { matrixOf, vectorOf } from './operands.js';
import { PreparedInputs } from './prepared-inputs.js';
import { logitsOp, type ProgramScratch } from './scratch.js';

/** The calls of a plan whose results have the bits of docs/NUMERICS.md: each op by itself, in the plan's order. */
export function canonicalCalls(model: DeviceModel, scratch: ProgramScratch): PlanCalls {
  const compiler = new CanonicalCompiler(model, scratch);
  const { ops } = model.plan;
  return {
    rows: ops.slice(0, -1).flatMap((op) => compiler.callsOf(op)),
    outputs: canonicalHeadCalls(model, scratch),
  };
}

/** The logits op: the wanted rows of its input are gathered while they are normalized. */
export function canonicalHeadCalls(model: DeviceModel, scratch: ProgramScratch): KernelCall[] {
  const op = logitsOp(model.plan);
  const { width } = model.plan.buffers[op.input]!;
  const weight = matrixOf(model, op.weight);
  const bias = op.bias === undefined ? {} : { bias: vectorOf(model, op.bias) };
  const { normed, logits } = scratch;
  const calls = [
    rmsNorm({
      input: model.buffers[op.input]!,
      weight: vectorOf(model, op.norm),
      output: normed,
      width,
      epsilon: op.epsilon,
      inputRow: 'outputs',
    }),
  ];
  if (weight.format === 'bf16') return [...calls, ...linearCalls({ weight, ...bias, input: normed, output: logits })];
  const prepared = scratch.preparedNormed();
  return [
    ...calls,
    prepareQ15({ input: normed, output: prepared, width }),
    ...linearCalls({ weight, ...bias, input: prepared, output: logits }),
  ];
}

class CanonicalCompiler {
  readonly #model: DeviceModel;
  readonly #scratch: ProgramScratch;
  readonly #prepared: PreparedInputs;

  constructor(model: DeviceModel, scratch: ProgramScratch) {
    this.#model = model;
    this.#scratch = scratch;
    this.#prepared = new PreparedInputs(model, scratch);
  }

  callsOf(op: Op): KernelCall[] {
    switch (op.kind) {
      case 'embed':
        return embedCalls({ table: matrixOf(this.#model, op.table), output: this.#written(op.output) });
      case 'rmsNorm': {
        const { groupCount, epsilon } = op;
        const width = this.#width(op.input);
        const weight = vectorOf(this.#model, op.weight);
        const input = this.#buffer(op.input);
        const output = this.#written(op.output);
        return [rmsNorm({ input, weight, output, width, epsilon, ...(groupCount && { groupCount }) })];
      }
      case 'linear':
        return this.#linear(op);
      case 'rope': {
        const { headSize } = this.#model.plan;
        const turns = this.#model.ropes[op.rope]!;
        return [rope({ buffer: this.#written(op.buffer), turns, headCount: op.headCount, headSize })];
      }
      case 'kvWrite': {
        const { kv, kvLayout: layout } = this.#model;
        return [kvWrite({ key: this.#buffer(op.key), value: this.#buffer(op.value), kv: kv[op.layer]!, layout })];
      }
      case 'attention':
        return this.#attention(op);
      case 'swiglu': {
        const width = this.#width(op.gate);
        const [gate, up] = [this.#buffer(op.gate), this.#buffer(op.up)];
        return [swiglu({ gate, up, output: this.#written(op.output), width })];
      }
      case 'add': {
        const width = this.#width(op.left);
        const [left, right] = [this.#buffer(op.left), this.#buffer(op.right)];
        return [add({ left, right, output: this.#written(op.output), width })];
      }
      case 'logits':
        throw new Error('assertion failed: logits is not among the ops of rows');
      default:
        return assertNever(op);
    }
  }

  #linear(op: Op & { kind: 'linear' }): KernelCall[] {
    const weight = matrixOf(this.#model, op.weight);
    const bias = op.bias === undefined ? {} : { bias: vectorOf(this.#model, op.bias) };
    const { calls, input } = this.#prepared.of(op.input, weight.format);
    return [...calls, ...linearCalls({ weight, ...bias, input, output: this.#written(op.output) })];
  }

  #attention(op: Op & { kind: 'attention' }): KernelCall[] {
    const { kv, kvLayout: layout } = this.#model;
    const { headCount, windowSize } = op;
    return attentionCalls({
      query: this.#buffer(op.query),
      output: this.#written(op.output),
      kv: kv[op.layer]!,
      layout,
      headCount,
      windowSize,
      partials: this.#scratch.attentionPartials,
    });
  }

  #buffer(id: BufferId): GPUBuffer {
    return this.#model.buffers[id]!;
  }

  /** A buffer that the op writes: what was prepared of it is out of date. */
  #written(id: BufferId): GPUBuffer {
    this.#prepared.written(id);
    return this.#buffer(id);
  }

  #width(id: BufferId): number {
    return this.#model.plan.buffers[id]!.width;
  }
}
