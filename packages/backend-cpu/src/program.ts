import {
  assertNever,
  type BackendInfo,
  type BackendLoad,
  type BufferId,
  type Op,
  type Plan,
  type WeightFormat,
} from '@stet/backend';
import { attentionScale, rmsNormConstants } from '@stet/backend/numerics';
import { type FastOption, formatNumber, scheduleNumber, windowWord } from './options.js';
import { Schedule, type Stage, type StageEntry } from './stages.js';

/** A plan as native/program.cpp reads it. */
export interface Program {
  readonly words: Int32Array;
  /** attention scale, then (scaledEpsilon, rootWidth) of each norm. */
  readonly constants: Float32Array;
}

/** Kinds of row operations, numbered as native/program.h does. */
const rowOp = { embed: 0, rmsNorm: 1, prepare: 2, rope: 3, kvWrite: 4, swiglu: 5, add: 6 } as const;
const stageNumber: Readonly<Record<Stage['kind'], number>> = { rows: 0, linear: 1, attention: 2, logits: 3 };

/**
 * What the fast schedule of a plan is. The kernels of byte formats are the canonical ones in both schedules, so a plan
 * of such matrices alone runs on canonical kernels throughout and has nothing that needs verifying; batch-shaped kernels
 * are none of those.
 */
export function fastSchedule(plan: Plan, fast: FastOption): BackendInfo['fast'] {
  if (fast === 'batch-shaped') return 'free';
  return plan.weights.every((spec) => spec.kind === 'vector' || hasOneKernel(spec.format)) ? 'canonical' : 'free';
}

function hasOneKernel(format: WeightFormat): boolean {
  switch (format) {
    case 'bf16':
      return false;
    case 'q8':
    case 'q4':
      return true;
    default:
      return assertNever(format);
  }
}

/** Compiles a plan that `checkLoad` has passed into stages. Pure. */
export function compileProgram(
  load: Pick<BackendLoad, 'plan' | 'blockSize' | 'blockCount' | 'maxRows'>,
  fast: FastOption,
): Program {
  const { plan } = load;
  const compiler = new Compiler(plan);
  for (const op of plan.ops) compiler.add(op);
  const words = [
    ...[plan.vocabSize, plan.contextLength, plan.layerCount, plan.kvHeadCount, plan.headSize],
    ...[load.blockSize, load.blockCount, load.maxRows],
    scheduleNumber[fastSchedule(plan, fast) === 'canonical' ? 'canonical' : 'fast'],
    ...[plan.ropes.length, plan.buffers.length, ...plan.buffers.map((buffer) => buffer.width)],
    ...[plan.weights.length, ...plan.weights.flatMap(weightWords)],
    ...[compiler.slots.length, ...compiler.slots.flatMap((slot) => [formatNumber(slot.format), slot.columns])],
    ...[compiler.schedule.stages.length, ...compiler.schedule.stages.flatMap(stageWords)],
  ];
  return { words: Int32Array.from(words), constants: Float32Array.from(compiler.constants) };
}

/** Kind, format, rows, columns. */
function weightWords(spec: Plan['weights'][number]): number[] {
  switch (spec.kind) {
    case 'vector':
      return [0, 0, spec.size, 1];
    case 'matrix':
      return [1, formatNumber(spec.format), spec.rows, spec.columns];
    default:
      return assertNever(spec);
  }
}

function stageWords(stage: Stage): number[] {
  return [stageNumber[stage.kind], stage.entries.length, ...stage.entries.flatMap(entryWords)];
}

function entryWords(entry: StageEntry): readonly number[] {
  if (entry.kind !== 'unit') return entry.words;
  return [entry.linears.length, ...entry.linears.flatMap((linear) => linear.words), entry.swigluOutput];
}

/** What operations read and write: plan buffers, the slots of prepared inputs, the K/V of layers. */
const buffer = (id: BufferId): string => `buffer ${id}`;
const slotOf = (index: number): string => `slot ${index}`;
const kv = (layer: number): string => `kv ${layer}`;

interface Slot {
  readonly buffer: BufferId;
  readonly format: WeightFormat;
  readonly columns: number;
  /** Version of the buffer that was prepared last. */
  version: number;
}

class Compiler {
  readonly schedule = new Schedule();
  readonly slots: Slot[] = [];
  readonly constants: number[];
  readonly #plan: Plan;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.constants = [attentionScale(plan.headSize)];
  }

  add(op: Op): void {
    switch (op.kind) {
      case 'embed':
        this.#row([], [op.output], [rowOp.embed, op.table, op.output]);
        return;
      case 'rmsNorm': {
        const groupCount = op.groupCount ?? 1;
        const norm = this.#norm(this.#width(op.input) / groupCount, op.epsilon);
        this.#row([op.input], [op.output], [rowOp.rmsNorm, op.input, op.weight, norm, op.output, groupCount]);
        return;
      }
      case 'rope':
        this.#row([op.buffer], [op.buffer], [rowOp.rope, op.buffer, op.headCount, op.rope]);
        return;
      case 'kvWrite':
        this.schedule.place('rows', [buffer(op.key), buffer(op.value)], [kv(op.layer)], {
          kind: 'op',
          words: [rowOp.kvWrite, op.layer, op.key, op.value],
        });
        return;
      case 'add':
        this.#row([op.left, op.right], [op.output], [rowOp.add, op.left, op.right, op.output]);
        return;
      case 'swiglu': {
        const { gate, up, output } = op;
        if (this.schedule.fuseSwiglu(buffer(gate), buffer(up), buffer(output), output)) return;
        this.#row([gate, up], [output], [rowOp.swiglu, gate, up, output]);
        return;
      }
      case 'linear':
        this.#linear(op);
        return;
      case 'attention':
        this.schedule.place('attention', [buffer(op.query), kv(op.layer)], [buffer(op.output)], {
          kind: 'op',
          words: [op.layer, op.query, op.headCount, windowWord(op.windowSize, this.#plan.contextLength), op.output],
        });
        return;
      case 'logits': {
        const norm = this.#norm(this.#width(op.input), op.epsilon);
        this.schedule.placeLast('logits', {
          kind: 'op',
          words: [op.input, op.norm, norm, op.weight, op.bias ?? -1],
        });
        return;
      }
      default:
        assertNever(op);
    }
  }

  #row(reads: readonly BufferId[], writes: readonly BufferId[], words: readonly number[]): void {
    this.schedule.place('rows', reads.map(buffer), writes.map(buffer), { kind: 'op', words });
  }

  #linear(op: Op & { kind: 'linear' }): void {
    const slot = this.#prepared(op.input, this.#format(op.weight));
    this.schedule.place('linear', [slotOf(slot)], [buffer(op.output)], {
      kind: 'unit',
      linears: [{ output: buffer(op.output), words: [op.weight, op.bias ?? -1, slot, op.output] }],
      swigluOutput: -1,
    });
  }

  /** The slot that holds a buffer as linears of a format take it; linears that share an input share it. */
  #prepared(input: BufferId, format: WeightFormat): number {
    let index = this.slots.findIndex((slot) => slot.buffer === input && slot.format === format);
    if (index < 0) {
      index = this.slots.push({ buffer: input, format, columns: this.#width(input), version: -1 }) - 1;
    }
    const slot = this.slots[index];
    const version = this.schedule.version(buffer(input));
    if (slot.version !== version) {
      slot.version = version;
      this.schedule.place('rows', [buffer(input)], [slotOf(index)], {
        kind: 'op',
        words: [rowOp.prepare, input, index],
      });
    }
    return index;
  }

  /** Index of the constants of a norm. */
  #norm(width: number, epsilon: number): number {
    const { scaledEpsilon, rootWidth } = rmsNormConstants(width, epsilon);
    for (let i = 1; i < this.constants.length; i += 2) {
      if (this.constants[i] === scaledEpsilon && this.constants[i + 1] === rootWidth) return (i - 1) / 2;
    }
    this.constants.push(scaledEpsilon, rootWidth);
    return (this.constants.length - 3) / 2;
  }

  #width(id: BufferId): number {
    return this.#plan.buffers[id].width;
  }

  #format(weight: number): WeightFormat {
    const spec = this.#plan.weights[weight];
    if (spec.kind !== 'matrix') throw new Error(`assertion failed: weight ${weight} is not a matrix`);
    return spec.format;
  }
}
