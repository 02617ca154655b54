import { assert, type Op } from '@stet/backend';
import { linearCalls } from '../kernels/linear.js';
import { prepareQ15 } from '../kernels/prepare-q15.js';
import { rmsNorm } from '../kernels/rms-norm.js';
import type { PlanCalls } from './compile-plan.js';
import type { DeviceModel } from './device-model.js';
import type { KernelCall } from './kernel-call.js';
import { matrixOf, vectorOf } from './operands.js';
import { PreparedInputs } from './prepared-inputs.js';
import { rowOpCalls, writeOf } from './row-op-calls.js';
import { logitsOp, type ProgramScratch } from './scratch.js';

/** The calls of a plan whose results have the bits of docs/NUMERICS.md: each op by itself, in the plan's order. */
export function canonicalCalls(model: DeviceModel, scratch: ProgramScratch): PlanCalls {
  const prepared = new PreparedInputs(model, scratch);
  const rows = model.plan.ops.slice(0, -1).flatMap((op) => {
    assert(op.kind !== 'logits', 'logits is the last op alone');
    // Before the calls of a linear, which may not write its input.
    const written = writeOf(op);
    if (written !== undefined) prepared.written(written);
    return op.kind === 'linear' ? rowLinearCalls(model, prepared, op) : rowOpCalls(model, scratch, op);
  });
  return { rows, outputs: headCalls(model, scratch) };
}

function rowLinearCalls(model: DeviceModel, prepared: PreparedInputs, op: Op & { kind: 'linear' }): KernelCall[] {
  const weight = matrixOf(model, op.weight);
  const bias = op.bias === undefined ? {} : { bias: vectorOf(model, op.bias) };
  const { calls, input } = prepared.of(op.input, weight.format);
  return [...calls, ...linearCalls({ weight, ...bias, input, output: model.buffers[op.output]! })];
}

/** The logits op: the wanted rows of its input are gathered while they are normalized. */
function headCalls(model: DeviceModel, scratch: ProgramScratch): KernelCall[] {
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
