import {
  assert,
  assertNever,
  type Batch,
  type BatchResult,
  type Op,
  OUTPUT_LOGITS,
  tableOf,
  type WeightId,
} from '@stet/backend';
import { slotsOf } from './kv-store.js';
import type { LoadedModel } from './load-model.js';
import { add } from './ops/add.js';
import { argmax } from './ops/argmax.js';
import { attention, firstAttended } from './ops/attention.js';
import { embed } from './ops/embed.js';
import { kvWrite } from './ops/kv-write.js';
import { type LinearCall, linear } from './ops/linear.js';
import { rmsNorm } from './ops/rms-norm.js';
import { rope } from './ops/rope.js';
import { runnerUp } from './ops/runner-up.js';
import { swiglu } from './ops/swiglu.js';
import type { Pacer } from './pacer.js';

/** Multiply-adds, or elements of the cheap operations, between two looks at the clock: a few milliseconds of work. */
const PIECE_WORK = 1 << 20;

/** Runs the plan over the rows of a checked batch: the canonical numerics, one row after the other. */
export async function runBatch(model: LoadedModel, batch: Batch, pacer: Pacer): Promise<BatchResult> {
  const run = new BatchRun(model, batch, pacer);
  for (const op of model.plan.ops) {
    if (op.kind === 'logits') return run.logits(op);
    await run.op(op);
    await pacer.pause();
  }
  assert(false, 'a checked plan ends with logits');
}

class BatchRun {
  readonly #model: LoadedModel;
  readonly #batch: Batch;
  readonly #pacer: Pacer;
  readonly #rowCount: number;
  /** By row: the slots of its sequence's positions, shared by the rows of a sequence. */
  readonly #slots: readonly Int32Array[];

  constructor(model: LoadedModel, batch: Batch, pacer: Pacer) {
    this.#model = model;
    this.#batch = batch;
    this.#pacer = pacer;
    this.#rowCount = batch.tokens.length;
    this.#slots = slotsByRow(batch, model.blockSize);
  }

  async op(op: Exclude<Op, { kind: 'logits' }>): Promise<void> {
    const { buffers } = this.#model;
    switch (op.kind) {
      case 'embed':
        return this.#embed(op);
      case 'rmsNorm': {
        const { width } = this.#model.plan.buffers[op.input];
        const weight = this.#vector(op.weight);
        rmsNorm(buffers[op.input], weight, op.epsilon, width, op.groupCount ?? 1, this.#rowCount, buffers[op.output]);
        return;
      }
      case 'linear':
        return this.#linear(op.weight, op.bias, buffers[op.input], this.#rowCount, buffers[op.output]);
      case 'rope':
        return this.#rope(op);
      case 'kvWrite':
        return this.#kvWrite(op);
      case 'attention':
        return this.#attention(op);
      case 'swiglu':
        return this.#swiglu(op);
      case 'add':
        add(buffers[op.left], buffers[op.right], this.#count(op.left), buffers[op.output]);
        return;
      default:
        assertNever(op);
    }
  }

  async logits(op: Op & { kind: 'logits' }): Promise<BatchResult> {
    const { plan, buffers } = this.#model;
    const { outputRows, outputKinds } = this.#batch;
    const { width } = plan.buffers[op.input];
    const hidden = new Float32Array(outputRows.length * width);
    for (const [i, row] of outputRows.entries()) {
      hidden.set(buffers[op.input].subarray(row * width, (row + 1) * width), i * width);
    }
    rmsNorm(hidden, this.#vector(op.norm), op.epsilon, width, 1, outputRows.length, hidden);
    const all = new Float32Array(outputRows.length * plan.vocabSize);
    await this.#linear(op.weight, op.bias, hidden, outputRows.length, all);
    return pickOutputs(all, plan.vocabSize, outputKinds);
  }

  #embed(op: Op & { kind: 'embed' }): void {
    const { plan, buffers, weights } = this.#model;
    const table = weights[op.table];
    assert(table.kind !== 'vector', 'an embedding table is a matrix');
    const { width } = plan.buffers[op.output];
    for (const [row, token] of this.#batch.tokens.entries()) {
      embed(table, width, token, buffers[op.output], row * width);
    }
  }

  async #linear(
    id: WeightId,
    biasId: WeightId | undefined,
    input: Float32Array,
    rowCount: number,
    output: Float32Array,
  ): Promise<void> {
    const spec = this.#model.plan.weights[id];
    assert(spec.kind === 'matrix', 'a linear has a matrix');
    const { rows, columns } = spec;
    const bias = biasId === undefined ? undefined : this.#vector(biasId);
    const call: LinearCall = { rows, columns, weight: this.#model.weights[id], bias, input, rowCount, output };
    const range = linear(call);
    const piece = Math.max(1, Math.floor(PIECE_WORK / (columns * Math.max(1, rowCount))));
    for (let from = 0; from < rows; from += piece) {
      range(from, Math.min(from + piece, rows));
      await this.#pacer.pause();
    }
  }

  #rope(op: Op & { kind: 'rope' }): void {
    const { plan, buffers, ropes } = this.#model;
    for (const [row, position] of this.#batch.positions.entries()) {
      for (let head = 0; head < op.headCount; head++) {
        const offset = (row * op.headCount + head) * plan.headSize;
        rope(buffers[op.buffer], offset, plan.headSize, ropes[op.rope], position);
      }
    }
  }

  #kvWrite(op: Op & { kind: 'kvWrite' }): void {
    const { plan, buffers, kv } = this.#model;
    const width = plan.kvHeadCount * plan.headSize;
    for (const [row, position] of this.#batch.positions.entries()) {
      kvWrite(kv[op.layer], this.#slots[row][position], buffers[op.key], buffers[op.value], row * width);
    }
  }

  async #attention(op: Op & { kind: 'attention' }): Promise<void> {
    const { plan, buffers, kv, attention: scratch } = this.#model;
    const share = op.headCount / plan.kvHeadCount;
    for (const [row, position] of this.#batch.positions.entries()) {
      const first = firstAttended(position, op.windowSize);
      for (let head = 0; head < op.headCount; head++) {
        const offset = (row * op.headCount + head) * plan.headSize;
        const kvHead = Math.floor(head / share);
        attention(
          scratch,
          kv[op.layer],
          kvHead,
          this.#slots[row],
          first,
          position,
          buffers[op.query],
          offset,
          buffers[op.output],
        );
        await this.#pacer.pause();
      }
    }
  }

  async #swiglu(op: Op & { kind: 'swiglu' }): Promise<void> {
    const { buffers } = this.#model;
    const count = this.#count(op.gate);
    for (let from = 0; from < count; from += PIECE_WORK / 16) {
      const to = Math.min(from + PIECE_WORK / 16, count);
      swiglu(buffers[op.gate], buffers[op.up], from, to, buffers[op.output]);
      await this.#pacer.pause();
    }
  }

  #count(buffer: number): number {
    return this.#rowCount * this.#model.plan.buffers[buffer].width;
  }

  #vector(id: WeightId): Float32Array {
    const data = this.#model.weights[id];
    assert(data.kind === 'vector', `weight ${id} is a vector`);
    return data.values;
  }
}

function slotsByRow(batch: Batch, blockSize: number): Int32Array[] {
  const slots: Int32Array[] = [];
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    const positionCount = batch.positions[batch.rowStarts[s + 1] - 1] + 1;
    const sequence = slotsOf(tableOf(batch, s, blockSize), blockSize, positionCount);
    for (let row = batch.rowStarts[s]; row < batch.rowStarts[s + 1]; row++) slots.push(sequence);
  }
  return slots;
}

function pickOutputs(all: Float32Array, vocabSize: number, kinds: Uint8Array): BatchResult {
  const wanted = kinds.reduce((count, kind) => count + (kind === OUTPUT_LOGITS ? 1 : 0), 0);
  const logits = new Float32Array(wanted * vocabSize);
  const best = new Int32Array(kinds.length);
  const bestLogit = new Float32Array(kinds.length);
  const secondLogit = new Float32Array(kinds.length);
  let next = 0;
  for (const [i, kind] of kinds.entries()) {
    best[i] = argmax(all, i * vocabSize, vocabSize);
    bestLogit[i] = all[i * vocabSize + best[i]];
    secondLogit[i] = runnerUp(all, i * vocabSize, vocabSize, best[i]);
    if (kind === OUTPUT_LOGITS) logits.set(all.subarray(i * vocabSize, (i + 1) * vocabSize), next++ * vocabSize);
  }
  return { argmax: best, argmaxLogit: bestLogit, runnerUpLogit: secondLogit, logits };
}
